"""What `neutralise` did, undone: nothing is lost in a neutralised text."""

from __future__ import annotations

from toolcall_middleware.formats.prompt import escaping


def restore(text: str) -> str:
    """The text that `neutralise` was given."""
    return escaping._replaced(text, escaping._markers(text), lambda match: match[0].removesuffix("\\"))
