"""OpenAI's text completions, as a backend speaks them: a chat completion with a written prompt, in and out. No I/O.

A request has the prompt in place of the messages, and other fields under their names in that API. Chat fields
that were used to write the prompt are left out. An answer becomes a chat completion's. Usage, finish reasons, errors
and unknown fields keep their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..wire import openai
from ..wire.sse import EventReader, ServerEvent, TooLargeError

_ONLY_CHAT = frozenset(
    {
        *("messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
        *("chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message", "documents"),
        *("reasoning", "reasoning_effort", "include_reasoning", "separate_reasoning", "stream_reasoning", "thinking"),
        *("modalities", "audio", "prediction", "verbosity", "web_search_options", "mm_processor_kwargs"),
        *("max_completion_tokens", "max_tokens", "logprobs", "top_logprobs", "add_special_tokens"),
    }
)
_PRESERVED = "preserved_tokens"
_LEAST_LOGPROBS = 1
"""llama.cpp takes 0 for none at all."""


def completion_body(
    body: bytes, prompt: str, *, stop: Sequence[str] = (), preserved: Sequence[str] = (), llama_cpp: bool = False
) -> bytes:
    """The body for `/v1/completions`.

    body: a chat completion's, whose fields keep their bytes. stop: strings at which the backend ends, beside those of
    the body. preserved: special tokens that are to be text, for a body that wants them so (`skip_special_tokens`).
    llama_cpp: the backend is known to be its server.
    """
    given = openai.read_object(body) or {}
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name == "messages":
            fields["prompt"] = prompt
        elif name not in _ONLY_CHAT:
            fields[name] = value
    # In OpenAI's API a text completion without a limit ends after 16 tokens, a chat completion does not. Engines take
    # null for no limit (vLLM, llama.cpp, llama-cpp-python).
    fields["max_tokens"] = _limit(given)
    if openai.read_value(given.get("logprobs")) is True:
        fields["logprobs"] = max(wanted_logprobs(body) or 0, _LEAST_LOGPROBS)
    # The template writes the token that begins a text, if the model wants one: vLLM would put another before it.
    fields["add_special_tokens"] = False
    if stop:
        fields["stop"] = _stops(given.get("stop"), stop)
    # llama.cpp drops special tokens from a text completion unless `preserved_tokens` names them; calls begin with such.
    if preserved and _PRESERVED not in fields and openai.read_value(fields.get("skip_special_tokens")) is False:
        fields[_PRESERVED] = list(preserved)
    _name_schema(fields, llama_cpp=llama_cpp)
    return openai.encode(fields)


def wanted_logprobs(body: bytes) -> int | None:
    """The number of likeliest tokens that a chat completion wants for each token; None if it wants no logprobs."""
    given = openai.read_object(body) or {}
    if openai.read_value(given.get("logprobs")) is not True:
        return None
    wanted = openai.read_value(given.get("top_logprobs"))
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 0


def _limit(given: openai.Fields) -> int | None:
    limits = [openai.read_value(given.get(name)) for name in ("max_completion_tokens", "max_tokens")]
    return min((limit for limit in limits if isinstance(limit, int)), default=None)


def _stops(own: msgspec.Raw | None, more: Sequence[str]) -> list[str]:
    value = openai.read_value(own)
    asked = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return list(dict.fromkeys([*(text for text in asked if isinstance(text, str)), *more]))


def _name_schema(fields: dict[str, Any], *, llama_cpp: bool) -> None:
    """llama.cpp reads `response_format` in chat completions only; in text completions a schema is `json_schema`. Others
    read what OpenAI's API has, `json_schema` within it; only llama.cpp is asked for a schema beside `json_object`.
    """
    match openai.read_value(fields.get("response_format")):
        case {"type": "json_object", "schema": dict() as schema}:
            pass
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}} if llama_cpp:
            pass
        case {"type": "json_object"} if llama_cpp:
            schema = {"type": "object"}
        case _:
            return
    del fields["response_format"]
    fields["json_schema"] = schema


# -- the answer -------------------------------------------------------------------------------------------------------


_WHOLE, _CHUNK = msgspec.Raw(b'"chat.completion"'), msgspec.Raw(b'"chat.completion.chunk"')
_NULL = msgspec.Raw(b"null")
_ID = "cmpl-"
_STREAM = (b"data:", b"event:", b":")


class CompletionAnswer:
    """One answer: either `whole`, or `feed`s and `finish`.

    top: how many of the likeliest tokens the client wants beside each. limit: bytes that an unfinished event may take.
    """

    def __init__(self, *, top: int | None = None, limit: int | None = None) -> None:
        self._top = top
        self._events = EventReader(limit)
        self._begun: set[int] = set()

    def whole(self, data: bytes) -> bytes:
        """A whole answer as a chat completion. A body that is not a text completion is returned unchanged."""
        top = openai.read_object(openai.without_constants(data))
        choices = None if top is None else openai.read_objects(top.get("choices"))
        if top is None and data.lstrip().startswith(_STREAM):
            return self.feed(data) + self.finish()  # a stream that was not announced as one
        if top is None or choices is None or not any("text" in choice for choice in choices):
            return data
        made = [self._choice(choice, "message") for choice in choices]
        return openai.encode({**top, **_head(top), "object": _WHOLE, "choices": made})

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the event stream, cut anywhere."""
        try:
            return b"".join(map(self._event, self._events.feed(data)))
        except TooLargeError:
            return self._events.rest()  # the reader of these bytes reports the limit

    def finish(self) -> bytes:
        """The stream is over. Return the event that lacks its end."""
        return b"".join(map(self._event, self._events.finish()))

    def _event(self, event: ServerEvent) -> bytes:
        top = None if event.data is None else openai.read_object(event.data)
        choices = None if top is None else openai.read_objects(top.get("choices"))
        if top is None or choices is None:
            return event.raw
        made = [self._choice(choice, "delta") for choice in choices]
        return openai.event(openai.one_line(openai.encode({**top, **_head(top), "object": _CHUNK, "choices": made})))

    def _choice(self, choice: openai.Fields, holder: str) -> dict[str, Any]:
        text = choice.pop("text", None)
        if text is None:
            return choice  # already a chat completion's, or passed to the reader unchanged
        said: dict[str, Any] = {"content": text}
        index = openai.read_value(choice.get("index"))
        if holder == "message" or (isinstance(index, int) and index not in self._begun):
            said = {"role": "assistant", **said}
            self._begun.add(index if isinstance(index, int) else 0)
        made: dict[str, Any] = {"index": choice.get("index", 0), holder: said, **choice}
        if not openai.is_null(choice.get("logprobs")):
            made["logprobs"] = self._logprobs(openai.read_value(choice["logprobs"]))
        made.setdefault("finish_reason", _NULL)
        return made

    def _logprobs(self, value: Any) -> Any:
        """The two lists of a text completion as the one of a chat; llama.cpp gives that at once."""
        tokens = value.get("tokens") if isinstance(value, dict) else None
        if self._top is None:
            return None  # the client asked for none
        if not isinstance(tokens, list):
            return value
        logprobs, likeliest = _list(value.get("token_logprobs")), _list(value.get("top_logprobs"))
        content = []
        for place, token in enumerate(tokens):
            others = likeliest[place] if place < len(likeliest) else None
            others = others if isinstance(others, dict) else {}
            entry = _entry(token, logprobs[place] if place < len(logprobs) else None)
            near = [_entry(other, number) for other, number in others.items()]
            content.append({**entry, "top_logprobs": near[: self._top]})
        return {"content": content, "refusal": None}


def _head(top: openai.Fields) -> dict[str, Any]:
    own = openai.read_text(top.get("id"))
    return {"id": f"chat{own}"} if own is not None and own.startswith(_ID) else {}


def _entry(token: Any, logprob: Any) -> dict[str, Any]:
    text = token if isinstance(token, str) else str(token)
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
