"""A request without tools while a guard is on: its body, sent on as it is, and its answer, which is read for calls.

A backend may call tools of its own (an agent, a router with a server's tools). Such calls meet the list and the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..errors import ToolCallError
from ..request.parse import ChatRequest, unread_request
from ..response.answer_form import Reply, is_completion
from ..settings import Settings
from ..usage.meter_of_settings import model_of
from ..wire import openai
from .actions import Facts, State
from .backend_memory import BackendMemory
from .passing import UsageOnlyAnswer
from .tool_answer import ToolAnswer

# The text and the reasoning are emitted as they come, and nothing is asked again.
_AS_IT_CAME = {"mode": "native", "reasoning_field": None, "validate_arguments": "off", "retries": 0}


_CALLS = ("tool_calls", "function_call")


def _may_hold_calls(data: bytes) -> bool:
    """Whether a body that is no chat completion holds calls, or may to a reader that takes more than JSON."""
    value = openai.read_value(data)
    if value is None:
        return any(name.encode() in data for name in _CALLS)
    open_ = [value]
    while open_:
        value = open_.pop()
        if isinstance(value, dict):
            if any(value.get(name) for name in _CALLS):
                return True
            value = list(value.values())
        if isinstance(value, list):
            open_ += value
    return False


def _asked(body: bytes, chat: ChatRequest, settings: Settings) -> bytes:
    """The body, which asks for usage where tokens are limited. The client does not get to see it."""
    if settings.token_limit is None or not chat.stream or chat.include_usage:
        return body
    return openai.with_fields(body, {"stream_options": {"include_usage": True}})


class GuardedAnswer(ToolAnswer):
    """One such request. A `Conversation`; see there for what is public."""

    def __init__(self, body: bytes, settings: Settings, memory: BackendMemory, *, defer: bool) -> None:
        chat = unread_request(body, model_of(body))
        self._passed = UsageOnlyAnswer(_asked(body, chat, settings), settings, memory, defer=False)
        super().__init__(chat, settings.layer(_AS_IT_CAME, "guard"), memory, None, defer=defer)

    @property
    def facts(self) -> Facts:
        """What observers are told."""
        return replace(super().facts, mode="pass", format=None)

    def first(self) -> bytes:
        """The body for the backend."""
        return self._request.sends(self._passed.first())

    def take_next(self) -> bytes | None:
        """The body to ask the backend again with, once."""
        body = self._passed.take_next()
        return super().take_next() if body is None else self._request.sends(body)

    def begin(self, status: int, headers: Mapping[bytes, bytes]) -> State:
        """A response begins. A refusal is the client's, as it came."""
        refused = self._passed.begin(status, headers)
        state = super().begin(status, headers)
        if status >= 400:
            return refused
        return State.SNIFFING if self._is_stream and state is State.COLLECTING else state

    def headers(self) -> dict[str, str]:
        """Headers for a streamed answer; they replace the backend's."""
        return {**super().headers(), **self._passed.headers()}

    def whole(self, data: bytes) -> Reply | None:
        """A collected response. None: ask again, with `take_next`."""
        if self._status >= 400:
            return self._passed.whole(data)
        if is_completion(data) or _may_hold_calls(data):
            return super().whole(data)
        return Reply(self._status, data, None)

    def finish(self, *, cut: bool, left: bool) -> bytes:
        """The stream is over. One in which no choice of a chat completion began ends as it came."""
        stream = self._stream
        if stream.choices.begun or stream.failed is not None:
            return super().finish(cut=cut, left=left)
        return stream.finish(cut=cut) + stream.end()

    def _is_refusal(self, error: ToolCallError) -> bool:  # noqa: ARG002 - as a ToolAnswer
        return False
