"""What was learned of backends, by model.

All requests share it, so nothing that one client sends may decide for another. A fact that a request's own tools,
schema or fields may have caused names them (`Fact.of` holds their digest), or is kept for that client alone (`of`).
"""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ..fading_memory import FadingMemory, digest
from ..request.parse import ChatRequest

REMEMBERED_SECONDS = 600.0
DOUBTFUL_SECONDS = 120.0
"""For a conclusion that is checked again sooner."""
_REMEMBERED = 512  # facts
_LONGEST_NAME = 512  # characters
_ALL = None  # in place of a client
_ORDINARY = frozenset({
    "model", "messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "stream",
    "stream_options", "temperature", "top_p", "max_tokens", "max_completion_tokens", "n", "stop", "seed", "user",
    "presence_penalty", "frequency_penalty", "metadata", "store",
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_TOOLS = 32
_LIKE_A_CALL = re.compile(r"<\|?\w|\[TOOL|```|[\"'](?:name|arguments|parameters)[\"']", re.IGNORECASE)
_LOOKED_AT = 1 << 16  # characters of a message


class Topic(enum.Enum):
    """What can be known of a model. The values are names in traces."""

    TOOLS = "tools"  # whether the backend's own tool calls work: a `ToolSupport`
    REFUSES = "refuses"  # a field, a kind of constraint, a question; of: its name, and what else was odd
    LEFT_OUT = "left_out"  # the keywords that a backend refuses in one schema; of: the constraint and its digest
    CALLS_COME = "calls_come"  # calls in a format reach us; of: the format
    CALLS_KEPT = "calls_kept"  # the engine takes calls in a format out of the text; of: the format
    WINDOW = "window"  # how many tokens the backend's window holds
    TEMPLATE = "template"  # the template that the backend shows, as the setting `template` names one; empty: none
    NO_CALL = "no_call"  # a reason why answers hold no call was logged; of: the reason
    OPENS_THOUGHT = "opens_thought"  # whether the prompt opens a thought; of: the position of the template's switch


class Fact(NamedTuple):
    """A topic and what it is about."""

    topic: Topic
    of: tuple[str, ...] = ()


class BackendMemory:
    """What was learned of backends, by model. It fades, lives as long as the middleware, and all requests share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._known = FadingMemory[tuple[str, Fact, str | None], Any](clock, most=_REMEMBERED)
        self._clock = clock
        self._client = ""

    def of(self, client: bytes) -> BackendMemory:
        """The same memory as seen by one client, identified by a header's value."""
        if not client:
            return self
        view = BackendMemory(self._clock)
        view._known = self._known
        view._client = digest(client)
        return view

    def refuse(self, model: str, name: str) -> None:
        """The backend refuses what has this name: a field, a question."""
        self.note(model, Fact(Topic.REFUSES, (name,)))

    def refuses(self, model: str, name: str) -> bool:
        """Whether it is known to."""
        return self.recall(model, Fact(Topic.REFUSES, (name,))) is not None

    def note(self, model: str, fact: Fact, *, value: Any = True, seconds: float = REMEMBERED_SECONDS) -> None:
        """Remember a fact for all clients. Longer names than any model has are a client's invention, and ignored."""
        if len(model) <= _LONGEST_NAME:
            self._known.put((model, fact, _ALL), value, seconds=seconds)

    def note_own(self, model: str, fact: Fact, *, value: Any = True, seconds: float = DOUBTFUL_SECONDS) -> None:
        """Remember a fact for this client alone: its own words may have caused it."""
        if len(model) <= _LONGEST_NAME:
            self._known.put((model, fact, self._client), value, seconds=seconds)

    def recall(self, model: str, fact: Fact) -> Any:
        """The value that was noted, for this client or for all; None if nothing is remembered."""
        own = self._known.get((model, fact, self._client))
        return own if own is not None else self._known.get((model, fact, _ALL))

    def facts(self, model: str) -> list[tuple[str, tuple[str, ...], bool, Any]]:
        """All that is remembered of a model, as (topic, of, whether for this client alone, value), for traces."""
        return [
            (fact.topic.value, fact.of, client is not _ALL, value)
            for (known, fact, client), value in self._known.items()
            if known == model and client in {_ALL, self._client}
        ]


# -- what of a request may have caused a refusal -------------------------------------------------------------------
#
# A backend that refuses an ordinary request would refuse it from any client. Fields that few clients send (a grammar of
# the client's own, a penalty that an engine cannot combine with a constraint) are part of what was refused.


def odd_fields(chat: ChatRequest) -> str:
    """A digest of the fields that are not ordinary, empty where there are none."""
    odd = {name: bytes(raw) for name, raw in chat.fields.items() if name not in _ORDINARY}
    if chat.n > 1:
        odd["n"] = str(chat.n).encode()
    return digest(*(part for name in sorted(odd) for part in (name.encode(), odd[name]))) if odd else ""


def has_plain_names(chat: ChatRequest) -> bool:
    """Whether the tools' names are such that no grammar can fail for them."""
    tools = chat.tools.tools
    return len(tools) <= _MOST_TOOLS and all(_NAME.fullmatch(tool.name) for tool in tools)


def speaks_of_calls(chat: ChatRequest) -> bool:
    """Whether a model that writes markup may only repeat what stands in the conversation."""
    return any(_LIKE_A_CALL.search(_text(message.get("content"))) for message in chat.messages)


def _text(content: Any) -> str:
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content[:_LOOKED_AT] if isinstance(content, str) else ""
