"""The HTTP client library that the tree at hand takes, found out without importing the tree: what is random in it is
made the same first.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx
else:
    package = importlib.util.find_spec("toolcall_middleware")
    # Older trees know httpx alone.
    if Path(package.origin).with_name("hosts").joinpath("http", "client_library.py").is_file():
        try:
            import httpx2 as httpx
        except ImportError:
            import httpx
    else:
        import httpx

__all__ = ["httpx"]
