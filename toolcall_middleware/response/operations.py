"""What becomes of a choice, as operations on the client's message: text, reasoning, a call, more of its arguments.

choice.py gives them; chunk_writer.py makes deltas of them, whole.py one message. Arguments follow `CallOpened`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..parsing.events import Text

Content = Text  # what the parser says is text is what the client gets for `content`, as the same value


class ReasoningText(msgspec.Struct, frozen=True, gc=False):
    """Text for the reasoning field. `names` are the fields that it came in, where it is the backend's own."""

    text: str
    names: tuple[str, ...] = ()


class CallOpened(msgspec.Struct, frozen=True, gc=False):
    """A call begins. `extra` are fields that the backend gave it and nobody here knows."""

    index: int
    id: str
    name: str
    custom: bool = False
    extra: dict[str, Any] | None = None


class Arguments(msgspec.Struct, frozen=True, gc=False):
    """A piece of the open call's arguments."""

    index: int
    text: str
    custom: bool = False


Op = Content | ReasoningText | CallOpened | Arguments
