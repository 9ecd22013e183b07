"""`python -m toolcall_middleware` is the command `toolcall-middleware`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the working directory first on the path. It may be a checkpoint's folder, and a `jinja2.py` in it is a
    # stranger's program. The folder stays where this package itself is found in it.
    if not sys.flags.safe_path and Path(sys.path[0]).resolve() != Path(__file__).resolve().parents[1]:
        del sys.path[0]
    from .cli import main

    sys.exit(main())
