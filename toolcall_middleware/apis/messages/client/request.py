"""A Messages request as a chat completion.

Fields that a chat backend does not have are left out: `metadata`, `service_tier`, `context_management`, `container`,
`cache_control`, `inference_geo` and all that are unknown here. Clients keep sending them after a refusal.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....errors import ToolCallError
from ....wire import openai
from ....wire.json_input import ANTHROPIC, Reader, read_fields
from .messages import Conversation, Thinking, read_messages, read_thinking
from .tools import Toolbox, chat_choice, read_tools

_log = logging.getLogger("toolcall_middleware")

_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "xhigh": "high", "max": "high"}
"""`output_config.effort` as `reasoning_effort`. `high` is the API's default, the same as none: it is not sent, because
backends whose model does not think refuse the field, and Claude Code sends `high` with each request."""

_PASSED = ("toolcall", "request_options")
_BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was read. `chat`: the fields of the chat completion. estimate: how many tokens it may have."""

    chat: dict[str, Any]
    model: str
    stream: bool
    thinking: Thinking
    stops: tuple[str, ...]
    talk: Conversation
    tools: Toolbox
    estimate: int


def read_request(body: bytes, *, counting: bool = False, native: bool = False) -> Asked:
    """The request in `body`. counting: it is one for count_tokens, which has no `max_tokens` and no `stream`.

    native: the upstream speaks this API, see `Toolbox`.
    Raises ToolCallError, whose `param` is the path of the field.
    """
    request = Reader(read_fields(body), ANTHROPIC)
    if request.given("thread") is not None:
        raise _no_threads()
    chat: dict[str, Any] = {"model": (model := request.filled("model"))}
    stream = False
    if not counting:
        stream = request.flag("stream") is True
        chat["max_tokens"] = request.count("max_tokens")
        if chat["max_tokens"] is None:
            raise request.error("max_tokens", ANTHROPIC["missing"])
    thinking = read_thinking(request)
    chat.update(_sampling(request))
    if stops := [stop for stop in request.texts("stop_sequences") if stop]:
        chat["stop"] = stops
    chat.update(_output(request))
    box = read_tools(request, native=native)
    talk = read_messages(request, box, system_text(request))
    chat["messages"] = talk.messages
    chat.update(box.fields)
    chat.update(chat_choice(request, box))
    if stream:
        chat["stream"] = True
        chat["stream_options"] = {"include_usage": True}
    chat.update({name: request.fields[name] for name in _PASSED if name in request.fields})
    return Asked(
        chat=chat,
        model=model,
        stream=stream,
        thinking=thinking,
        stops=tuple(stops),
        talk=talk,
        tools=box,
        estimate=_estimate(chat),
    )


def _no_threads() -> ToolCallError:
    """The answer that makes the SDKs' tool runners send whole histories; any other ends the run."""
    return ToolCallError(
        "invalid_request",
        "threads are not kept here; send the whole conversation in messages",
        extra={"details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}},
    )


def _sampling(request: Reader) -> dict[str, Any]:
    request.number("temperature", 0)
    request.number("top_p", 0, 1)
    names = ("temperature", "top_p", *(["top_k"] if request.count("top_k", 0) else []))
    return {name: request.fields[name] for name in names if request.given(name) is not None}


def _output(request: Reader) -> dict[str, Any]:
    """`output_config`, and the `output_format` that came before it, as `reasoning_effort` and `response_format`."""
    config = request.inner("output_config")
    made: dict[str, Any] = {}
    if config is not None and (effort := _EFFORTS.get(str(config.value("effort")))):
        made["reasoning_effort"] = effort
    wanted = (config and config.inner("format")) or request.inner("output_format")
    if wanted is not None:
        if wanted.required("type") != "json_schema":
            raise wanted.error("type", "Input should be 'json_schema'")
        if not wanted.begins("schema", b"{"):
            raise wanted.error("schema", ANTHROPIC["object"])
        schema = {"name": "output", "schema": wanted.fields["schema"], "strict": True}
        made["response_format"] = {"type": "json_schema", "json_schema": schema}
    return made


def _estimate(chat: dict[str, Any]) -> int:
    """An estimate of the prompt's tokens, by its size; the true number comes at the answer's end."""
    size = sum(_text_size(message.get("content")) for message in chat["messages"])
    size += sum(len(call["function"]["arguments"]) for call in _calls(chat))
    size += sum(len(openai.encode(tool)) for tool in chat.get("tools", ()))
    return size // _BYTES_A_TOKEN + 1


def _text_size(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(part.get("text", "")) for part in content or ())


def _calls(chat: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in chat["messages"]:
        yield from message.get("tool_calls", ())


# -- the system text: its blocks as one text, without meaningless lines that change from request to request -----------
# A backend keeps what it computed of a prompt as long as the next one begins with the same bytes. A line that differs
# in each request and comes first makes it compute the whole prompt again.


_KNOWN_LINES: tuple[tuple[str, re.Pattern[str], bool], ...] = (
    # Its suffix changes between sessions, and between the kinds of request of one session.
    ("claude-code-billing", re.compile(r"\s*x-anthropic-billing-header:[^\n]*(?:\n+|$)"), False),
    (
        "leading-date",
        re.compile(
            r"\s*(?:Today's date|Todays date|Current date(?: and time)?|Current time"
            r"|The current (?:date|time)(?: and time)?"
            r"|Today)(?: is\b|:)[^\n]{1,100}(?:\n+|$)"
        ),
        True,
    ),
)
"""Known first lines: name, pattern, whether the line has a meaning and is therefore moved to the end of the text."""


def system_text(request: Reader) -> str:
    """The request's `system` (a string, or text blocks) as one text. It is empty if the request has no `system`."""
    if request.begins("system", b'"'):
        texts = [request.required("system")]
    else:
        texts = []
        for block in request.items("system"):
            if block.required("type") != "text":
                raise block.error("type", "Input should be 'text'")
            texts.append(block.required("text"))
    return "\n\n".join(text for text in _without_known_lines(texts) if text)


def _without_known_lines(texts: list[str]) -> list[str]:
    """The texts with the known lines at their front left out, or moved to the end."""
    moved: list[str] = []
    for name, pattern, keep in _KNOWN_LINES:
        first = next((number for number, text in enumerate(texts) if text.strip()), None)
        found = pattern.match(texts[first]) if first is not None else None
        if first is None or found is None:
            continue
        _log.info("messages: system text: %s is %s", name, "moved to the end" if keep else "left out")
        texts = [*texts[:first], texts[first][found.end() :], *texts[first + 1 :]]
        if keep:
            moved.append(found[0].strip())
    return [*texts, *moved]
