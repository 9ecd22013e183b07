"""The command line. Each command imports what it needs by itself, so that `--help` is quick."""

from .commands import main

__all__ = ["main"]
