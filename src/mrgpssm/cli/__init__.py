"""The command line: one module per group of commands; heavy modules are imported by the commands that need them."""

from mrgpssm.cli.main import main

__all__ = ["main"]
