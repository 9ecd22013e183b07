"""How an operation on the client's message is written as a delta: today's `tool_calls`, or the deprecated form."""

from __future__ import annotations

from ..usage.meter import UsageMeter
from ..wire import openai
from .operations import Arguments, Content, Op, Opened, Thought


class DeltaWriter:
    """Operations in, the JSON of deltas out.

    legacy: calls leave as the deprecated `function_call`. as_object: arguments are a JSON object, not a string.
    reasoning_field: where reasoning goes that was found in the text; `usage` is told of it.
    """

    __slots__ = ("_as_object", "_legacy", "_reasoning_field", "_usage")

    def __init__(self, usage: UsageMeter, *, legacy: bool, as_object: bool, reasoning_field: str | None) -> None:
        self._usage = usage
        self._legacy = legacy
        self._as_object = as_object
        self._reasoning_field = reasoning_field or "reasoning"

    def _around_arguments(self, op: Arguments) -> tuple[bytes, bytes]:
        """The JSON before and after a piece of a call's arguments, which is a JSON string."""
        if self._legacy:
            return b'{"function_call":{"arguments":', b"}}"
        if op.custom:
            return b'{"tool_calls":[{"index":%d,"custom":{"input":' % op.index, b"}}]}"
        return b'{"tool_calls":[{"index":%d,"function":{"arguments":' % op.index, b"}}]}"

    def frame(self, op: Op) -> tuple[bytes, bytes] | None:
        """The JSON before and after the text of `op`, where that is written as a JSON string."""
        if type(op) is Content:
            return b'{"content":', b"}"
        if type(op) is Arguments and not op.custom and not self._as_object:
            return self._around_arguments(op)
        return None

    def parts(self, op: Op) -> tuple[bytes, ...]:
        """The parts of a delta's JSON."""
        match op:
            case Arguments(_, text):
                before, after = self._around_arguments(op)
                if self._as_object and not op.custom:
                    # They are complete: a call leaves at its end then. Half an emoji stays an escape.
                    return before, openai.one_line(text.encode("utf-8", "backslashreplace")), after
                return before, openai.encode(text), after
            case Content(text):
                return b'{"content":', openai.encode(text), b"}"
            case Thought(text, names):
                if not names:  # else it is counted
                    self._usage.thought(text)
                return (openai.encode(dict.fromkeys(names or (self._reasoning_field,), text)),)
            case Opened(index, call_id, name, custom, extra):
                if self._legacy:
                    return (openai.encode({"function_call": {"name": name, "arguments": ""}}),)
                kind, key = ("custom", "input") if custom else ("function", "arguments")
                call = {"index": index, "id": call_id, "type": kind, kind: {"name": name, key: ""}, **(extra or {})}
                return (openai.encode({"tool_calls": [call]}),)
