"""Chat completions as the exchange writes them: one typed decode for a chunk, one for a whole answer."""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import ToolCallError
from ...wire import openai
from .answer import Usage
from .fields import whole_text


class Function(msgspec.Struct, gc=False):
    """What is called. `arguments`: JSON text, an object where the dialect says so."""

    name: str | None = None
    arguments: Any = None


class Call(msgspec.Struct, gc=False):
    """A call, or a piece of one. `extra_content`: Google's field for a call's signature."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: Any = None

    @property
    def extra(self) -> dict[str, Any] | None:
        """What an upstream wants back with the call."""
        return self.extra_content if isinstance(self.extra_content, dict) else None


class Message(msgspec.Struct, gc=False):
    """A delta, or a message."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    reasoning_details: Any = None
    tool_calls: list[Call] | None = None

    @property
    def signed(self) -> list[dict[str, Any]]:
        """What an upstream wants back of its reasoning: signed thoughts, and redacted ones."""
        details = self.reasoning_details
        return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []

    @property
    def thought(self) -> str | None:
        """The reasoning. Some backends send it under both names; or it is what a backend tells apart, and beside it
        what was in the text.
        """
        own, read = self.reasoning_content, self.reasoning
        return own + read if own and read and not read.startswith(own) else read or own


class Choice(msgspec.Struct, gc=False):
    """One choice; requests of this face ask for one."""

    index: int = 0
    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct, gc=False):
    """A chunk or a whole chat completion."""

    created: Any = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None

    @property
    def first(self) -> Choice | None:
        """The choice that is read."""
        choices = self.choices
        if not choices:
            return None
        if choices[0].index == 0:
            return choices[0]
        return next((choice for choice in choices if choice.index == 0), None)

    @property
    def only(self) -> Choice:
        """The choice of a whole answer. Raises ToolCallError where it has none."""
        choice = self.first
        if choice is None:
            raise ToolCallError("upstream_error", "The backend's answer has no choice.")
        return choice

    @property
    def created_at(self) -> int | None:
        """Seconds since 1970, where they can be meant."""
        created = self.created
        known = isinstance(created, int | float) and not isinstance(created, bool) and 0 < created < 1 << 40
        return int(created) if known else None


_COMPLETION = msgspec.json.Decoder(Completion)


def read_completion(data: bytes) -> Completion:
    """A chunk, or a whole answer. Raises ToolCallError `upstream_error` for what is none."""
    try:
        return _COMPLETION.decode(data)
    except openai.FAILURES:
        # NaN among logprobs, a lone surrogate: what engines write and JSON does not know.
        value = _without_surrogates(openai.read_value(data))
    try:
        return msgspec.convert(value, Completion)
    except (msgspec.ValidationError, RecursionError):
        raise ToolCallError("upstream_error", "The backend's answer is no chat completion.") from None


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return whole_text(value)
        case list():
            return [_without_surrogates(item) for item in value]
        case dict():
            return {whole_text(name): _without_surrogates(item) for name, item in value.items()}
    return value


def arguments_of(call: Call) -> str:
    """The piece of arguments that a call brings, as JSON text."""
    arguments = call.function.arguments if call.function is not None else None
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return openai.encode(arguments).decode()
