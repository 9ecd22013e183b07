"""The version of this package, in one place: the log, the command line and the build read it here."""

__version__ = "0.3.0"
