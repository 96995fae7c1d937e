"""The mean model for other machines: as one C file, or as a StableHLO program."""

from mrgpssm.export.c99 import c_source

__all__ = ["c_source"]
