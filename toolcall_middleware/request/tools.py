"""The tools that a request offers: read, checked and remembered; and the choice among them.

An agent sends the same 40 kB of tools at every turn, so what was read once is found again by its raw bytes.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from ..errors import kind, refusal, shown
from ..json_schema.pattern import text_pattern
from ..json_schema.validate_schema import MAX_VALUES, SchemaChecker, SchemaFault
from ..lru_cache import LRUCache
from ..model import LOADED_FIELD, ChoiceMode, Tool, ToolChoice, ToolSet
from ..wire.json_input import DECODE_ERRORS, decode, not_json


class ToolLimits(NamedTuple):
    """The settings of the same names; None is no limit."""

    max_tools: int | None
    max_tool_name_length: int | None
    max_description_length: int | None
    max_schema_depth: int | None


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools of a request. `custom` are the names of those of `type: custom`, which take free text: here they are
    functions with one required string, `input`. `provider` are the types of tools that a provider runs itself, such as
    `openrouter:web_search`, by their index in the request.

    Shared between requests: the schemas inside must not be changed.
    """

    tools: ToolSet
    custom: frozenset[str] = frozenset()
    provider: Mapping[int, str] = dataclasses.field(default_factory=dict)


_CACHE: LRUCache[tuple[bytes, ToolLimits, str], OfferedTools] = LRUCache(max_entries=128, max_size=8 << 20)
"""Results of `read_tools`; their size is that of their source in bytes."""


def read_tools(raw: bytes, limits: ToolLimits, *, field: str = "tools") -> OfferedTools:
    """The tools in the JSON `raw`, the value of `field`: `tools`, the deprecated `functions`, or `DEFERRED_FIELD`.

    Raises ToolCallError, whose `param` is a path such as `tools[1].function.parameters`.
    """
    key = (raw, limits, field)
    offered = _CACHE.get(key)
    if offered is None:
        offered = _read(raw, limits, field)
        _CACHE.put(key, offered, size=len(raw))
    return offered


def _read(raw: bytes, limits: ToolLimits, field: str) -> OfferedTools:
    entries = _entries(raw, field)
    if limits.max_tools is not None and len(entries) > limits.max_tools:
        most, over = limits.max_tools, _name_in(entries[limits.max_tools])
        message = f"max_tools is {most}: the request offers {len(entries)} tools, {over} is the first too many."
        raise refusal(field, message, "too_many_tools")
    if raw.count(b",") + raw.count(b"{") + raw.count(b"[") > 10 * MAX_VALUES:  # text has some of these, too
        message = f"The tools cannot be checked: their schemas hold more than {MAX_VALUES} values."
        raise refusal(field, message, "invalid_tool_schema")
    reader = _Reader(limits)
    for index, entry in enumerate(entries):
        param = f"{field}[{index}]"
        value = decode(entry, param)
        if field == "tools" and isinstance(value, dict) and _is_provider(value.get("type")):
            reader.provider[index] = value["type"]
        else:
            reader.add(value, param, legacy=field == "functions")
    return OfferedTools(ToolSet.of(list(reader.tools.values())), frozenset(reader.custom), reader.provider)


_PROVIDER = re.compile(r"[\w.-]{1,64}:[\w.:/-]{1,64}")


def _is_provider(variant: Any) -> bool:
    """Whether the type of a tool names a provider's own, which the provider runs."""
    return isinstance(variant, str) and _PROVIDER.fullmatch(variant) is not None


def provider_tools(raw: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """The entries of `tools` that a provider runs, each to the byte."""
    return [entry for entry in _ENTRIES.decode(raw) if _is_provider(_TYPE.decode(entry).type)]


def sent_tools(raw: bytes, offered: OfferedTools, allowed: frozenset[str] | None, *, provider: bool) -> bytes:
    """The value of `tools`, read as `offered`, as a backend gets it; `raw` itself if nothing changes.

    Functions without a type, which several servers take and others refuse, get `"type": "function"`. What faces say of
    a tool is left out, and so are the tools that are not `allowed`, and without `provider` those of a provider.
    """
    names = iter(offered.tools.by_name)
    entries = _ENTRIES.decode(raw)
    sent: list[msgspec.Raw] = []
    for index, entry in enumerate(entries):
        is_provider = index in offered.provider
        if (provider and not allowed) if is_provider else (not allowed or next(names) in allowed):
            sent.append(_typed(entry))
    same = not allowed and len(sent) == len(entries) and all(map(operator.is_, sent, entries))
    return raw if same else msgspec.json.encode(sent)


def _typed(entry: msgspec.Raw) -> msgspec.Raw:
    has_type = _TYPE.decode(entry).type is not None
    if has_type and _OF_FACES not in bytes(entry):
        return entry
    fields: dict[str, Any] = _TOOL.decode(entry)
    fields.pop(LOADED_FIELD, None)
    if not has_type:
        fields.pop("type", None)
        fields = {"type": "function", **fields}
    return msgspec.Raw(msgspec.json.encode(fields))


def rewritten_tools(raw: bytes | msgspec.Raw) -> msgspec.Raw:
    """A list of tools as it was read: each member once, none that differs from a known one by its case alone, and
    beside the `function` or `custom` that a tool's type says nothing else that could be its definition. `raw` where it
    is null.
    """
    tools = msgspec.json.decode(raw)
    return msgspec.Raw(raw if tools is None else msgspec.json.encode([_as_read(tool) for tool in tools]))


def _as_read(tool: dict[str, Any]) -> dict[str, Any]:
    kept = _in_own_spelling(tool)
    kind = kept.get("type") or "function"
    if kind not in ("function", "custom") or not isinstance(kept.get(kind), dict):
        return kept  # one of `functions`, or a tool of Messages
    beside = {name: value for name, value in kept.items() if name not in _INNER or name == "type"}
    return beside | {kind: _in_own_spelling(kept[kind])}


_INNER = frozenset({"type", "function", "name", "parameters", "custom", "description", "strict"})


def _in_own_spelling(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name in _INNER or name.casefold() not in _INNER}


class _Type(msgspec.Struct):
    type: str | None = None


_OF_FACES = LOADED_FIELD.encode()
_TYPE = msgspec.json.Decoder(_Type)
_TOOL = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _name_in(entry: msgspec.Raw) -> str:
    """The name in a tool that was not validated, for a message."""
    try:
        value = msgspec.json.decode(entry)
    except DECODE_ERRORS:
        return "one that is no JSON"
    inner = (
        next((value[key] for key in ("function", "custom") if key in value), value) if isinstance(value, dict) else {}
    )
    name = inner.get("name") if isinstance(inner, dict) else None
    return shown(name) if isinstance(name, str) else "one without a name"


def _entries(raw: bytes, field: str) -> list[msgspec.Raw]:
    """The definitions, not decoded yet: a list of a million is refused for a fraction of what it costs to build."""
    try:
        return _ENTRIES.decode(raw)
    except msgspec.ValidationError:
        raise refusal(field, f"'{field}' must be an array, got {kind(decode(raw, field))}.") from None
    except DECODE_ERRORS as error:
        raise not_json(error, field) from None


_ENTRIES = msgspec.json.Decoder(list[msgspec.Raw])


class _Reader:
    """Reads the definitions of one request in turn."""

    def __init__(self, limits: ToolLimits) -> None:
        self._limits = limits
        self._schemas = SchemaChecker()
        self.tools: dict[str, Tool] = {}
        self.custom: set[str] = set()
        self.provider: dict[int, str] = {}

    def add(self, entry: Any, param: str, *, legacy: bool) -> None:
        if not isinstance(entry, dict):
            raise refusal(param, f"A tool must be an object, got {kind(entry)}.")
        if legacy:
            tool = self._function(entry, param)
        else:
            variant = entry.get("type")
            if variant is None and "function" in entry:  # several servers take this, and so do their clients
                variant = "function"
            if variant not in ("function", "custom"):
                raise refusal(f"{param}.type", f"A tool's type must be 'function' or 'custom', got {shown(variant)}.")
            inner, path = entry.get(variant), f"{param}.{variant}"
            if not isinstance(inner, dict):
                raise refusal(path, f"'{variant}' must be an object, got {kind(inner)}.")
            tool = self._function(inner, path) if variant == "function" else self._custom(inner, path)
        if tool.name in self.tools:
            message = f"Two tools have the name {shown(tool.name)}."
            where = f"{param}.name" if legacy else f"{path}.name"
            raise refusal(where, message, "invalid_tool_schema")
        if entry.get(LOADED_FIELD) is True:
            tool = replace(tool, loaded=True)
        self.tools[tool.name] = tool

    def _function(self, inner: dict[str, Any], param: str) -> Tool:
        name = self._name(inner, param)
        description = self._description(inner, name, param)
        strict = inner.get("strict")
        if strict is not None and not isinstance(strict, bool):
            raise refusal(f"{param}.strict", f"'strict' must be true, false or null, got {kind(strict)}.")
        parameters = self._parameters(inner.get("parameters"), name, f"{param}.parameters")
        if parameters is None:
            return Tool(name, description, strict=bool(strict))
        return Tool(name, description, parameters, bool(strict))

    def _custom(self, inner: dict[str, Any], param: str) -> Tool:
        name = self._name(inner, param)
        description = self._description(inner, name, param)
        self.custom.add(name)
        form = inner.get("format")
        text = {"type": "string", "description": _custom_input(form, f"{param}.format")}
        match form:
            case {"grammar": {"definition": str(definition), "syntax": "regex"}}:
                if (pattern := text_pattern(definition)) and self._schemas.check_pattern(pattern) is None:
                    text["pattern"] = pattern
        return Tool(name, description, {"type": "object", "properties": {"input": text}, "required": ["input"]})

    def _name(self, inner: dict[str, Any], param: str) -> str:
        name, where = inner.get("name"), f"{param}.name"
        if not isinstance(name, str):
            raise refusal(where, f"A tool needs a name, a string; got {'none' if name is None else kind(name)}.")
        # OpenAI takes letters, digits, _, - and, of late, dots. MCP servers also use slashes and colons, which a text
        # backend can live with; what would break the markup around a name is refused.
        if not name or not name.isprintable() or not _MARKUP.isdisjoint(name):
            message = (
                f"{shown(name)} is no name for a tool: it must not be empty, nor hold white space, control characters,"
                " quotes, backticks, braces or angle brackets."
            )
            raise refusal(where, message, "invalid_tool_schema")
        self._limit("max_tool_name_length", len(name), name, "the name", where)
        return name

    def _description(self, inner: dict[str, Any], name: str, param: str) -> str:
        description, where = inner.get("description"), f"{param}.description"
        if description is None:
            return ""
        if not isinstance(description, str):
            raise refusal(where, f"The description of tool {shown(name)} must be a string, got {kind(description)}.")
        self._limit("max_description_length", len(description), name, "the description", where)
        return description

    def _parameters(self, parameters: Any, name: str, param: str) -> dict[str, Any] | None:
        if parameters is None or parameters == {}:
            return None
        if not isinstance(parameters, dict):
            message = f"Invalid schema for function {shown(name)}: it must be an object, got {kind(parameters)}."
            raise refusal(param, message, "invalid_tool_schema")
        try:
            levels = self._schemas.check(parameters)
        except SchemaFault as fault:
            message = f"Invalid schema for function {shown(name)}: {fault}."
            raise refusal(param + fault.where, message, "invalid_tool_schema") from None
        self._limit("max_schema_depth", levels, name, "the schema", param)
        return parameters

    def _limit(self, limit: str, size: int, name: str, what: str, param: str) -> None:
        most: int | None = getattr(self._limits, limit)
        if most is not None and size > most:
            unit = "levels" if limit == "max_schema_depth" else "characters"
            message = f"{limit} is {most}: {what} of tool {shown(name)} has {size} {unit}."
            raise refusal(param, message, "limit_exceeded")


_MARKUP = frozenset(" \"'`{}<>")


def _custom_input(form: Any, param: str) -> str:
    """What the one parameter of a custom tool is, for the model to read."""
    match form:
        case None | {"type": "text"}:
            return "The input of the tool, as plain text."
        case {"type": "grammar", "grammar": {"definition": str(definition), "syntax": ("lark" | "regex") as syntax}}:
            return f"The input of the tool, as text that fits this {syntax} grammar:\n{definition}"
    raise refusal(param, "A custom tool's format must be {'type': 'text'} or a grammar with its definition and syntax.")


def read_choice(value: Any, tools: ToolSet, *, parallel: bool, param: str) -> ToolChoice:
    """The choice that `value` (of the field `param`, decoded; None where absent) makes among `tools`.

    `parallel` is whether several calls are welcome where no tool is named. Without tools, nothing is chosen.
    Raises ToolCallError `invalid_tool_choice` for a tool that is not there, `invalid_request` for a wrong form.
    """
    match value:
        case None | "auto":
            return ToolChoice(ChoiceMode.AUTO if len(tools) else ChoiceMode.NONE, parallel=parallel)
        case "none":
            return ToolChoice(ChoiceMode.NONE, parallel=parallel)
        case "required" | "any":  # Mistral's word
            if not len(tools):
                raise refusal(param, f"'{param}' is '{value}' without tools.", "invalid_tool_choice")
            return ToolChoice(ChoiceMode.REQUIRED, parallel=parallel)
        case {"type": "allowed_tools"}:
            return _allowed(value, tools, parallel=parallel, param=param)
        case dict():
            name = _known(_name(value, param), tools, param)
            return ToolChoice(ChoiceMode.NAMED, name=name, parallel=False)
    allowed = "'none', 'auto', 'required' or an object that names a tool"
    raise refusal(param, f"'{param}' must be {allowed}; got {shown(value)}.")


def _allowed(value: dict[str, Any], tools: ToolSet, *, parallel: bool, param: str) -> ToolChoice:
    inner = value.get("allowed_tools", value)  # the Responses API has no inner object
    entries = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(entries, list):
        raise refusal(param, "'allowed_tools' needs 'tools', an array of tools.")
    names = frozenset(_known(_name(entry, param), tools, param) for entry in entries)
    match inner.get("mode"):
        case None | "auto":
            mode = ChoiceMode.AUTO if names else ChoiceMode.NONE
        case "required":
            mode = ChoiceMode.REQUIRED
        case other:
            raise refusal(param, f"The mode of 'allowed_tools' must be 'auto' or 'required'; got {shown(other)}.")
    if mode is ChoiceMode.REQUIRED and not names:
        raise refusal(param, "'allowed_tools' requires a call and allows no tool.", "invalid_tool_choice")
    return ToolChoice(mode, allowed=names, parallel=parallel)


def _name(entry: Any, param: str) -> str:
    """The name in `{"type": "function", "function": {"name"}}`, the same for `custom`, or one without the wrapper."""
    match entry:
        case {"type": "custom", "custom": {"name": str(name)}}:
            return name
        case {"type": "function" | None, "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return name
        case {"type": _}:
            pass
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return name
    got = "an object without a tool's name" if isinstance(entry, dict) else kind(entry)
    raise refusal(param, f"'{param}' must name a tool; got {got}.")


def _known(name: str, tools: ToolSet, param: str) -> str:
    if name not in tools.by_name:
        raise refusal(param, f"The tool {shown(name)} is not in 'tools'.", "invalid_tool_choice")
    return name
