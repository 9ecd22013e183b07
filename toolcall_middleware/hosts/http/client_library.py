"""The HTTP client library: `from …client_library import httpx` is httpx2 where it is installed, else httpx.

httpx has had no release since December 2024. httpx2 goes on with it under another name, with the same classes; the SDKs
of OpenAI and Anthropic use it. Both may be installed; this package uses one of them throughout, because of their
exceptions. httpx stays what is required: no pin of a server that this is installed beside moves for its successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx  # the same names, and always there for the type checker
else:
    try:
        import httpx2 as httpx
    except ImportError:
        import httpx

__all__ = ["httpx"]
