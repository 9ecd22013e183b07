"""Is the request ours, and is it well formed: the body's bytes in, a `ChatRequest` out.

What a request may change for itself is in the body's `toolcall` object and `request_options`.

Requests that offer no tools and hold no calls are not read any further than that takes, and are not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..errors import ToolCallError, kind, refusal, shown
from ..formats import registry
from ..model import DEFERRED_FIELD, ChoiceMode, ToolChoice, ToolSet
from ..settings import OPTIONS, Settings, show
from ..settings.settings import is_looser, of_request
from ..wire import openai
from ..wire.json_input import DECODE_ERRORS, OPENAI, Reader, decode, read_fields, read_members
from .messages import History, read_history
from .tools import OfferedTools, ToolLimits, read_choice, read_tools, rewritten_tools, sent_tools

_NULL = msgspec.Raw(b"null")
_ABSENT = msgspec.Raw(b"")
# OpenAI allows four strings; engines more. Each is looked for in every answer.
_MOST_STOPS = 256
_LONGEST_STOPS = 16 * 1024
_NO_TOOLS = OfferedTools(ToolSet())


@dataclass(slots=True)
class ChatRequest:
    """A request that offers tools or whose messages hold calls, checked.

    `fields` is the whole body, its values byte-exact and in their order, without `toolcall` and `request_options`;
    what has several spellings (a tool or call without its type, arguments as an object) has the usual one.
    `messages` are decoded; deprecated function messages have become tool calls and tool messages.
    `listed` are the tools and those that may be called without being shown to the model (`DEFERRED_FIELD`).
    `tools_raw` tells tool lists apart: the key for everything derived from `tools`, empty where none are offered.
    `overrides` are the Settings that this request changes, by name.
    `legacy` is true when tools are in the deprecated `functions`: the answer has `function_call`.
    `custom` are the names of tools of `type: custom`: in `tools`, functions with one required string `input`.
    `provider` are the types of tools that a provider runs itself, by their index: they are not in `tools`.
    `deprecated` is the path of the first field of the deprecated functions API, or an empty string.
    `answer_schema` is the schema that `response_format` asks of the answer's text; `{"type": "object"}` for any object.
    """

    model: str
    choice: ToolChoice
    stream: bool
    include_usage: bool
    fields: dict[str, msgspec.Raw] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: ToolSet = _NO_TOOLS.tools
    listed: ToolSet = _NO_TOOLS.tools
    tools_raw: bytes = b""
    stop: tuple[str, ...] = ()
    n: int = 1
    overrides: dict[str, Any] = field(default_factory=dict)
    legacy: bool = False
    custom: frozenset[str] = frozenset()
    provider: Mapping[int, str] = field(default_factory=dict)
    deprecated: str = ""
    answer_schema: Mapping[str, Any] | None = None

    @property
    def offers_tools(self) -> bool:
        """Whether the answer may hold calls. Where no tool may be called, `tool_choice` is read as `none`."""
        return self.choice.mode is not ChoiceMode.NONE

    @property
    def callable_tools(self) -> ToolSet:
        """The tools that may be called under `tool_choice`."""
        return self._callable(self.listed)

    @property
    def shown_tools(self) -> ToolSet:
        """Those of `callable_tools` that the model is shown."""
        return self._callable(self.tools)

    def _callable(self, tools: ToolSet) -> ToolSet:
        choice = self.choice
        if self.offers_tools and choice.name is None and choice.allowed is None:
            return tools
        return tools.only(frozenset(filter(choice.allows, tools.by_name)))


@dataclass(frozen=True, slots=True)
class UsageOnly:
    """A streamed request without tools that asks for usage: its bytes go on unchanged, and are not checked."""


class _Turn(msgspec.Struct):
    role: Any = None
    tool_calls: msgspec.Raw = _NULL
    function_call: msgspec.Raw = _NULL


class _Probe(msgspec.Struct):
    """The fields that say whether a body is ours. The decoder skips all others."""

    messages: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _NULL
    functions: msgspec.Raw = _NULL
    tool_choice: msgspec.Raw = _NULL
    stream: msgspec.Raw = _NULL
    stream_options: msgspec.Raw = _NULL
    response_format: msgspec.Raw = _NULL

    @property
    def turns(self) -> list[_Turn] | None:
        """The messages; None where they are no list of objects."""
        try:
            return [] if self.messages == _ABSENT else _TURNS.decode(self.messages)
        except DECODE_ERRORS:
            return None

    @property
    def offers_tools(self) -> bool:
        return bool(_offered(self.tools) or _offered(self.functions))

    @property
    def has_calls(self) -> bool:
        return any(
            turn.role == "tool" or turn.role == "function" or _offered(turn.tool_calls) or _offered(turn.function_call)
            for turn in self.turns or ()
        )

    @property
    def asks_for_call(self) -> bool:
        """Whether a call is required. Without tools that is refused, as OpenAI does: no backend could obey it."""
        choice = bytes(self.tool_choice)
        return choice in {b'"required"', b'"any"'} or choice[:1] == b"{"

    @property
    def streams(self) -> bool:
        return bytes(self.stream) == b"true"

    @property
    def wants_json(self) -> bool:
        match openai.read_value(self.response_format):
            case {"type": "json_object" | "json_schema"}:
                return True
        return False

    @property
    def wants_usage(self) -> bool:
        match openai.read_value(self.stream_options):
            case {"include_usage": True}:
                return True
        return False


_PROBE = msgspec.json.Decoder(_Probe)
_TURNS = msgspec.json.Decoder(list[_Turn])


def _probed(body: bytes) -> _Probe | None:
    """The fields of a JSON object; None for any other body."""
    try:
        return _PROBE.decode(body)
    except DECODE_ERRORS:
        return None


def read_request(body: bytes, settings: Settings, *, always: bool = False) -> ChatRequest | UsageOnly | None:
    """Read and check a chat-completions body.

    None means that the request is not for the middleware, or not a chat request: it passes unchanged. always: read it
    also without tools, unless the mode is off.
    Raises only ToolCallError, for any bytes.
    """
    concern = _concern(body, settings) if not always else settings.mode != "off"
    if settings.allowlist_mode == "enforce" or settings.rate_limit is not None:
        _check_spelling(body)
    if not isinstance(concern, bool):
        return concern
    if not concern:
        return None
    fields = without_variants(read_fields(body))
    overrides = read_overrides(fields.pop("toolcall", None), fields.pop("request_options", None), settings)
    chat = _Reader(fields, settings, overrides).read()
    if settings.allowlist_mode == "enforce":
        # In native mode they go on: in the words that were checked.
        fields |= {name: rewritten_tools(fields[name]) for name in ("tools", "functions") if name in fields}
    return chat


def is_chat(body: bytes) -> bool:
    """Whether a body may be a chat completion's: false for one that can be read and has no messages."""
    probe = _probed(body)
    return probe is None or bytes(probe.messages) not in {b"", b"null"}


def asks_for_json(body: bytes) -> bool:
    """Whether a chat completion without tools has a `response_format` that asks for JSON."""
    probe = _probed(body) if b'"response_format"' in body else None
    return probe is not None and probe.wants_json and not probe.offers_tools and probe.turns is not None


def unread_request(body: bytes, model: str) -> ChatRequest:
    """A request without tools of which only the answer is read: nothing of it is checked."""
    probe = _probed(body) or _Probe()
    return ChatRequest(model, ToolChoice(ChoiceMode.NONE), stream=probe.streams, include_usage=probe.wants_usage)


def overrides_of(body: bytes, settings: Settings) -> dict[str, Any]:
    """The settings that a request changes for itself, by name. Raises ToolCallError as `read_request` does."""
    fields = read_fields(body)
    return read_overrides(fields.pop("toolcall", None), fields.pop("request_options", None), settings)


def _concern(body: bytes, settings: Settings) -> bool | UsageOnly:
    """Whether the body offers tools, holds calls or asks for one; or only asks for usage."""
    if settings.mode == "off":
        return False
    probe = _probed(body)
    if probe is None:
        # An error is for those who meant us; anything else is the backend's to refuse.
        return _means_us(body)
    if probe.offers_tools or probe.has_calls or probe.asks_for_call:
        return True
    if settings.structured == "prompt" and probe.wants_json:
        return True
    if probe.streams and settings.usage not in {"off", "backend"} and probe.wants_usage:
        return UsageOnly()
    return False


_NAMES = (b'"tools"', b'"functions"', b'"tool_calls"', b'"tool_call_id"', b'"function_call"', b'"tool_choice"')


def _means_us(body: bytes) -> bool:
    """Whether what msgspec cannot read speaks of tools. Other readers take more (NaN, UTF-16): a backend might."""
    if any(name in body for name in _NAMES):
        return True
    if b"\\u" not in body and b"\0" not in body:  # no escapes, no UTF-16 or 32
        return False
    try:
        # Encoded again, names have no escapes.
        written = json.dumps(json.loads(body, parse_int=len)).encode()
    except RecursionError:
        return True
    except ValueError:
        return False
    return any(name in written for name in _NAMES)


# -- a body that every parser reads alike where it speaks of tools ---------------------------------------------------
#
# JSON does not say which of two members of one name holds, and Go's reader takes `Tools` for `tools`: what was checked
# here would not be what the backend does.


OURS = frozenset({"tools", "functions", "tool_choice", "function_call", "messages"})
"""The fields of a request that say which tools there are, and which were called."""
# Go's reader also takes U+017F for an s.
_ESCAPED = re.compile(rb"\\u0(?:0[4-7]|17[fF])")


def one_reading(body: bytes) -> bytes:
    """`body`, or the same with one member for each field of tools: the last, in its own spelling, as is read here."""
    try:
        fields = read_fields(body)
    except ToolCallError:
        return body  # the backend's to refuse
    if OURS.issuperset(_ours(fields)) and all(body.count(b'"%b"' % name.encode()) < 2 for name in OURS):
        if b"\\u0" not in body or not _ESCAPED.search(body):
            return body
    try:
        names = _ours(name for name, _ in read_members(body))
        if len(names) == len(set(names)) and OURS.issuperset(names):
            return body
    except (ValueError, RecursionError):
        pass  # a backend may read a number of 5,000 digits, or one level more
    return msgspec.json.encode(without_variants(fields))


def _ours(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.casefold() in OURS]


def without_variants(fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """The fields but for those that are one of ours in another case."""
    return {name: value for name, value in fields.items() if name in OURS or name.casefold() not in OURS}


def _check_spelling(body: bytes) -> None:
    """Refuses `Tools`: backends in Go (Ollama) read it as `tools`, and it would pass a list of allowed ones unseen."""
    try:
        names = read_fields(body)
    except ToolCallError:
        return  # no JSON here: while a guard is on, it does not pass
    for name in _ours(names):
        if name not in OURS:
            raise refusal(name[:64], f"The field {shown(name)} is to be spelled {name.casefold()!r}.")


def _offered(raw: msgspec.Raw) -> bytes:
    """The bytes of a field that holds something: not null, not an empty array."""
    given = bytes(raw)
    return b"" if given == b"null" or (given[:1] == b"[" and not given[1:-1].strip()) else given


def _answer_schema(raw: msgspec.Raw | None) -> Mapping[str, Any] | None:
    """The schema that a `response_format` asks of the answer's text."""
    wanted = openai.read_value(raw)
    match wanted:
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            return schema
        case {"type": "json_object"}:
            schema = wanted.get("schema")
            return schema if isinstance(schema, dict) else {"type": "object"}
    return None


class _Reader:
    """Reads the fields of one request."""

    def __init__(self, fields: dict[str, msgspec.Raw], settings: Settings, overrides: dict[str, Any]) -> None:
        self._fields = fields
        self._read = Reader(fields, OPENAI)
        self._settings = settings
        self._overrides = overrides
        self._limits = ToolLimits(*map(self._setting, ToolLimits._fields))

    def read(self) -> ChatRequest:
        model = self._read.filled("model")
        history = read_history(
            bytes(self._fields.get("messages", _NULL)),
            max_rounds=self._setting("max_tool_rounds"),
            max_messages=self._setting("max_messages"),
        )
        self._read.number("temperature", 0)
        self._read.number("top_p", 0, 1)
        self._read.count("max_tokens")
        self._read.count("max_completion_tokens")
        n = self._read.count("n") or 1
        stream, include_usage = self._streaming()
        stop = self._stop()
        offered, tools_raw, legacy = self._tools()
        choice = self._choice(offered.tools, legacy=legacy)
        deprecated = self._deprecated() or history.deprecated
        self._normalise(history, offered, choice, legacy=legacy)
        return ChatRequest(
            model=model,
            fields=self._fields,
            messages=history.messages,
            tools=offered.tools,
            listed=self._listed(offered.tools),
            tools_raw=tools_raw,
            choice=choice,
            stream=stream,
            include_usage=include_usage,
            stop=stop,
            n=n,
            overrides=self._overrides,
            legacy=legacy,
            custom=offered.custom,
            provider=offered.provider,
            deprecated=deprecated,
            answer_schema=_answer_schema(self._fields.get("response_format")),
        )

    def _normalise(self, history: History, offered: OfferedTools, choice: ToolChoice, *, legacy: bool) -> None:
        """What servers and SDKs read in several spellings is sent on in the one that all upstreams know."""
        fields = self._fields
        if history.is_rewritten:
            fields["messages"] = msgspec.Raw(msgspec.json.encode(history.messages))
        if legacy:
            return
        raw = _offered(fields.get("tools", _NULL))
        if raw:
            # They were not read: where both are present, `tools` count, but a backend might use `functions`.
            fields.pop("functions", None)
            fields.pop("function_call", None)
            provider = self._settings.upstream_api == "openai"
            if (sent := sent_tools(raw, offered, choice.allowed, provider=provider)) is not raw:
                fields["tools"] = msgspec.Raw(sent)
        if self._read.value("tool_choice") == "any":
            fields["tool_choice"] = msgspec.Raw(b'"required"')
        if choice.allowed is not None:
            # vLLM refuses `allowed_tools`. To offer no others says the same.
            fields["tool_choice"] = msgspec.Raw(msgspec.json.encode(choice.mode.value))
        if choice.name is not None:
            given = self._read.value("tool_choice")
            wanted = {"type": "function", "function": {"name": choice.name}}
            if given != wanted and given.get("type") != "custom":
                fields["tool_choice"] = msgspec.Raw(msgspec.json.encode(wanted))

    def _deprecated(self) -> str:
        given = (name for name in ("functions", "function_call") if self._read.value(name) is not None)
        return next(given, "")

    def _setting(self, name: str) -> Any:
        return self._overrides.get(name, getattr(self._settings, name))

    def _streaming(self) -> tuple[bool, bool]:
        """Whether the answer is streamed, and whether it ends with usage."""
        stream = bool(self._read.flag("stream"))
        options = self._read.inner("stream_options")
        if options is None:
            return stream, False
        if not stream:
            raise refusal("stream_options", "'stream_options' is only allowed when 'stream' is true.")
        return stream, options.flag("include_usage") is True

    def _stop(self) -> tuple[str, ...]:
        value = self._read.value("stop")
        strings = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
            raise refusal("stop", f"'stop' must be a string or an array of strings, got {kind(value)}.")
        if len(strings) > _MOST_STOPS or sum(map(len, strings)) > _LONGEST_STOPS:
            message = f"'stop' may hold {_MOST_STOPS} strings and {_LONGEST_STOPS} characters."
            raise refusal("stop", message)
        return tuple(item for item in strings if item)

    def _tools(self) -> tuple[OfferedTools, bytes, bool]:
        """The tools, the key of what is derived from them, and whether they came in `functions`."""
        raw = _offered(self._fields.get("tools", _NULL))
        if raw:
            return read_tools(raw, self._limits), raw, False
        raw = _offered(self._fields.get("functions", _NULL))
        if raw:
            # The same bytes mean other tools in the other field.
            return read_tools(raw, self._limits, field="functions"), b"functions:" + raw, True
        return _NO_TOOLS, b"", False

    def _listed(self, tools: ToolSet) -> ToolSet:
        raw = _offered(self._fields.pop(DEFERRED_FIELD, _NULL))
        if not raw or not tools.tools:
            return tools
        limits = self._limits._replace(max_tools=None)
        deferred = read_tools(raw, limits, field=DEFERRED_FIELD).tools
        return ToolSet.of([*tools.tools, *(tool for tool in deferred.tools if tool.name not in tools.by_name)])

    def _choice(self, tools: ToolSet, *, legacy: bool) -> ToolChoice:
        wanted = self._read.flag("parallel_tool_calls")
        # A deprecated answer has room for one call.
        parallel = wanted is not False and self._setting("parallel") != "never" and not legacy
        name = "function_call" if legacy and self._read.value("function_call") is not None else "tool_choice"
        return read_choice(self._read.value(name), tools, parallel=parallel, param=name)


# Each is compared with each tool and each call, and kept compiled.
_MOST_PATTERNS = 128
_LONGEST_PATTERN = 128


def read_overrides(toolcall: msgspec.Raw | None, options: msgspec.Raw | None, settings: Settings) -> dict[str, Any]:
    """The settings that the request changes, by name, with values as `Settings` holds them.

    `toolcall` and `options` are the body's fields `toolcall` and `request_options`. Raises ToolCallError
    `invalid_request` for an unknown name, a bad value, and for a value looser than the operator's.
    """
    changed: dict[str, Any] = {}
    for name, value in _object(toolcall, "toolcall").items():
        changed[name] = _read(name, value, settings)
    if changed.get("allowlist"):
        # A list that is given is meant to hold.
        changed.setdefault("allowlist_mode", "enforce")
    else:
        changed.pop("allowlist", None)
    wanted, param = _object(options, "request_options").get("validate_tool_arguments"), "validate_tool_arguments"
    if not isinstance(wanted, bool | None):
        raise refusal(f"request_options.{param}", f"'{param}' must be a boolean, got {kind(wanted)}.")
    if wanted and changed.get("validate_arguments", settings.validate_arguments) != "retry":
        changed["validate_arguments"] = "error"
    return changed


def without_overrides(body: bytes) -> bytes:
    """The body of a request that is not checked, without these fields; the very same bytes where it has none."""
    for name in ("toolcall", "request_options"):
        if name.encode() in body:
            body = openai.without_field(body, name)
    return body


def _object(raw: msgspec.Raw | None, field: str) -> dict[str, Any]:
    value = None if raw is None else decode(raw, field)
    if not isinstance(value, dict | None):
        raise refusal(field, f"'{field}' must be an object, got {kind(value)}.")
    return value or {}


def _read(name: str, value: Any, settings: Settings) -> Any:
    param = f"toolcall.{name[:64]}"
    if not of_request(name):
        known = ", ".join(sorted(filter(of_request, OPTIONS)))
        raise refusal(param, f"{shown(name)} cannot be set by a request; use {known}.")
    option = OPTIONS[name]
    try:
        read = option.read(value)
    except (ValueError, TypeError, KeyError):
        raise refusal(param, f"{param}: {shown(value)} is not allowed; use {option.allowed}.") from None
    if name == "allowlist" and (len(read) > _MOST_PATTERNS or max(map(len, read), default=0) > _LONGEST_PATTERN):
        raise refusal(param, f"{param} may hold {_MOST_PATTERNS} names or globs of {_LONGEST_PATTERN} characters.")
    if name == "format" and registry.is_place(read):
        # Importing a module runs it: only the operator may choose one.
        raise refusal(param, f"{param}: {shown(read)} names a module, which a request cannot do; use a format's name.")
    if name == "format" and read not in (formats := registry.names()):
        raise refusal(param, f"{param}: {shown(read)} is not a format; use {', '.join(formats)}.")
    if is_looser(name, read, settings):
        raise refusal(param, f"{param}: {show(read)} would loosen what is set here, {show(getattr(settings, name))}.")
    return read
