"""`toolcall-middleware demo`: the main job, played for real and checked.

`run(argv)` returns the exit code: 0 when every check came out right, 1 when one did not, 2 for what cannot be run.
The demo stands beside the command line: nothing imports it but `cli`.
"""

from .play import run

__all__ = ["run"]
