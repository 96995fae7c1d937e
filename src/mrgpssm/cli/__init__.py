"""The command line: one module per group of commands, imported when one of them is called."""

from mrgpssm.cli.main import main

__all__ = ["main"]
