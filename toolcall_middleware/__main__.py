"""`python -m toolcall_middleware` is the command `toolcall-middleware`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
