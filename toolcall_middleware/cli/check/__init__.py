"""`toolcall-middleware check`: asks a backend some dozens of small questions and says what it can do.

What it finds out: native tools, each kind of constraint and whether it really constrains, usage, stop strings, what
history may hold, and how many calls come out right by which mode and format. It ends with the settings to use.
`run(options)` returns the exit code; `examine(app, …)` does the asking, on any ASGI app. Nothing imports it but `cli`.
"""

from .run import CheckError, Options, examine, run

__all__ = ["CheckError", "Options", "examine", "run"]
