"""OpenAI's Responses API as a client speaks it, without state."""

from __future__ import annotations

from .responder import ResponsesFace

__all__ = ["ResponsesFace"]
