"""What a parser says about a model's text: a flat sequence of small frozen values.

`CallStart` opens a call, `CallArgs` are pieces of its arguments (their concatenation is JSON), `CallEnd` closes it.
Calls never nest and never interleave.
"""

from typing import Any

import msgspec


class Text(msgspec.Struct, frozen=True, gc=False):
    """Text for the user, exactly as the model wrote it."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False):
    """Text of the model's reasoning. `markup` is true for the tag around it (`<think>`), false for what it thinks.

    `channel` is true where the model's syntax has a channel of its own for it (harmony): it is never content.
    Markup without text ends a thought whose end has no text of its own (a channel), or whose closing tag was emitted as
    text (its opening tag is in the prompt).
    """

    text: str
    markup: bool = False
    channel: bool = False


class CallStart(msgspec.Struct, frozen=True, gc=False):
    """A call whose name is complete. `id` is the one that the model's syntax carries, if it does.

    `extra` are unknown fields of a backend's own call (a provider's signature, say).
    `in_reasoning` is true when the call is inside the model's reasoning.
    `written` is the name as the model wrote it, where that is another spelling of `name`.
    """

    name: str
    id: str | None = None
    extra: dict[str, Any] | None = None
    written: str | None = None
    in_reasoning: bool = False


class CallArgs(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the open call's arguments, as JSON text."""

    text: str


class CallEnd(msgspec.Struct, frozen=True, gc=False):
    """The open call is over.

    `complete` is false when the text ended inside the call (the arguments emitted so far are then a prefix of JSON).
    `repaired` is true when the arguments were not valid JSON as written.
    `raw` is the call as the model wrote it, markup included, where the parser was asked to keep it.
    `coerced` is true when a value was given the type that the tool's schema asks for.
    `written` are the arguments as the model wrote them, in its syntax, where the parser was asked to keep these (see
    `sink.WrittenArguments`); empty where they need no repair and are not JSON.
    """

    complete: bool = True
    repaired: bool = False
    raw: str = ""
    coerced: bool = False
    written: str = ""


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """Markup that promised a call and held none. The text itself is emitted as `Text`, before or after."""

    raw: str
    reason: str
    name: str | None = None


class UnknownCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool that is not offered is over. It was emitted as `Text` or dropped. Reported on request."""

    name: str
    malformed: bool = False
    """The tool is offered; the call is text because its arguments are no object."""


class Stop(msgspec.Struct, frozen=True, gc=False):
    """After its calls, the model began to write another role's turn. The rest of its text is not part of the answer."""

    marker: str


Event = Text | Reasoning | CallStart | CallArgs | CallEnd | Malformed | UnknownCall | Stop
