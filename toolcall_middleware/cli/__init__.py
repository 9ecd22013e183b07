"""The command line: one module a command. Each imports what it needs by itself, so that `--help` is quick."""

from .dispatch import main

__all__ = ["main"]
