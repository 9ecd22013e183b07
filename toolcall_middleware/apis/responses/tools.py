"""The tools of a Responses request, offered to the model as functions.

Functions and custom tools stay what they are, also inside a namespace and where the input brings them
(`additional_tools`, `tool_search_output`). Tools that the client runs and the API knows by type become functions, too.
What only OpenAI's servers can run is left out, and told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...errors import ToolCallError, kind, refusal, shown
from ...json_schema.grammars.text import text_pattern
from ...model import DEFERRED_FIELD, GRAMMAR_FIELD, LOADED_FIELD
from ...wire.json_input import DECODE_ERRORS, decode, not_json
from .fields import Raw
from .freeform import FIELD
from .local_kinds import DESCRIPTIONS, PARAMETERS
from .names import ClientTool, Kind, Names

_ENTRIES = msgspec.json.Decoder(list[Raw])
_ENTRY = msgspec.json.Decoder(dict[str, Raw])
_LOCAL_KINDS = {"local_shell": Kind.LOCAL_SHELL, "shell": Kind.SHELL, "apply_patch": Kind.APPLY_PATCH}
_NOT_IN_HEADER = re.compile(r"[^a-zA-Z0-9_.-]")
_MAX_DROPPED_NAME = 64

# Sentences such as "This is a FREEFORM tool, so do not wrap the patch in JSON.": the model writes JSON here.
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)[^\S\n]*", re.MULTILINE)
_ON_JSON = re.compile(r"\bjson\b", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|never|no|without|avoid)\b|n't\b", re.IGNORECASE)


@dataclass(slots=True)
class _Offer:
    tool: ClientTool
    path: str
    function: dict[str, Any]  # without its name
    deferred: bool
    loaded: bool = False  # by a search, which wrote its definition into the conversation
    grammar: str | None = None


@dataclass(slots=True)
class OfferedTools:
    """The tools for the model. `chat`: as a chat completion has them. `paths`: where the client wrote each.

    `waiting`: deferred tools that the conversation has not loaded so far, by their names, with their paths. They may be
    called. `dropped`: types of those that are left out. `namespaces`: the offered names in each.
    """

    names: Names = field(default_factory=Names)
    chat: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    waiting: dict[str, tuple[dict[str, Any], str]] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    namespaces: dict[str, list[str]] = field(default_factory=dict)

    def load(self, name: str) -> Any:
        """Offer a tool of `waiting`, whose definition the conversation holds from here on: the definition."""
        entry, path = self.waiting.pop(name)
        self.chat.append({**entry, LOADED_FIELD: True})
        self.paths.append(path)
        return entry["function"]

    @property
    def fields(self) -> dict[str, Any]:
        """The tools as fields of a chat completion."""
        waiting = [entry for entry, _ in self.waiting.values()]
        return {"tools": self.chat, **({DEFERRED_FIELD: waiting} if waiting else {})} if self.chat else {}


class ToolReader:
    """Takes the lists of tools in turn, `tools` first. `read` gives what is offered."""

    def __init__(self) -> None:
        self._offers: list[_Offer] = []
        self._dropped: dict[str, None] = {}

    def add(self, raw: bytes | Raw, path: str, *, loaded: bool = False) -> None:
        """A list of tools as JSON. loaded: a search has found them, so they are no longer deferred.

        Raises ToolCallError, whose `param` begins with `path`.
        """
        self._list(raw, path, None, loaded=loaded)

    def read(self) -> OfferedTools:
        """All tools, under their names for the model."""
        offered = OfferedTools(dropped=tuple(self._dropped))
        # A deferred tool waits for a search that the client runs; where there is none it would wait for ever.
        searched = any(offer.tool.kind is Kind.TOOL_SEARCH for offer in self._offers)
        loaded = {_identity(offer) for offer in self._offers if not offer.deferred}
        offers = [offer for offer in self._offers if not offer.deferred or _identity(offer) not in loaded]
        offers.sort(key=lambda offer: searched and offer.deferred)
        # Names that the client chose for the model come first: a name that is made must not take one of them.
        for offer in offers:
            if offer.tool.namespace is None and offer.tool.kind in (Kind.FUNCTION, Kind.CUSTOM):
                offered.names.offer(offer.tool)
        seen: set[tuple[str | None, str]] = set()
        for offer in offers:
            if offer.path.startswith("input[") and (offer.tool.namespace, offer.tool.name) in seen:
                continue  # found once more, or loaded what was offered from the start
            seen.add((offer.tool.namespace, offer.tool.name))
            name = offered.names.offer(offer.tool)
            entry: dict[str, Any] = {"type": "function", "function": {"name": name, **offer.function}}
            if offer.grammar is not None:
                entry[GRAMMAR_FIELD] = offer.grammar
            if searched and offer.deferred:
                offered.waiting[name] = entry, offer.path
                continue
            if offer.loaded:
                entry[LOADED_FIELD] = True
            offered.chat.append(entry)
            offered.paths.append(offer.path)
            if offer.tool.namespace is not None:
                offered.namespaces.setdefault(offer.tool.namespace, []).append(name)
        return offered

    def _list(self, raw: bytes | Raw, path: str, namespace: str | None, *, loaded: bool) -> None:
        try:
            entries = _ENTRIES.decode(raw)
        except msgspec.ValidationError:
            raise refusal(path, f"'{path}' must be an array, got {kind(decode(raw, path))}.") from None
        except DECODE_ERRORS as error:
            raise not_json(error, path) from None
        for index, entry in enumerate(entries):
            self._entry(entry, f"{path}[{index}]", namespace, loaded=loaded)

    def _entry(self, raw: Raw, path: str, namespace: str | None, *, loaded: bool) -> None:
        try:
            fields = _ENTRY.decode(raw)
        except msgspec.ValidationError:
            raise refusal(path, f"A tool must be an object, got {kind(decode(raw, path))}.") from None
        variant = _text(fields, "type", path)
        if variant is None:
            raise refusal(f"{path}.type", "A tool needs a type.")
        match variant:
            case "function" | "custom":
                own = Kind(variant)
                function, grammar = (
                    (self._function(fields, path), None) if own is Kind.FUNCTION else _custom(fields, path)
                )
                deferred = _value(fields, "defer_loading", path) is True and not loaded
                tool = ClientTool(own, _name(fields, path), namespace)
                self._offers.append(_Offer(tool, path, function, deferred, loaded, grammar))
            case "namespace":
                if namespace is not None:
                    raise refusal(f"{path}.type", "A namespace holds functions and custom tools, no namespaces.")
                name = _name(fields, path)
                self._list(fields.get("tools", Raw(b"null")), f"{path}.tools", name, loaded=loaded)
            case "tool_search" if _value(fields, "execution", path) == "client":
                self._local(Kind.TOOL_SEARCH, fields, path)
            case "local_shell" | "apply_patch":
                self._local(_LOCAL_KINDS[variant], fields, path)
            case "shell" if _is_local(_value(fields, "environment", path)):
                self._local(Kind.SHELL, fields, path)
            case _:
                self._dropped.setdefault(_NOT_IN_HEADER.sub("_", variant)[:_MAX_DROPPED_NAME] or "unknown")

    @staticmethod
    def _function(fields: dict[str, Raw], path: str) -> dict[str, Any]:
        function: dict[str, Any] = {}
        # These leave as they came; what is wrong with them is found where all tools are checked.
        for name in ("description", "parameters", "strict"):
            raw = fields.get(name)
            if raw is not None and bytes(raw) != b"null":
                function[name] = raw
        _text(fields, "description", path)
        return function

    def _local(self, own: Kind, fields: dict[str, Raw], path: str) -> None:
        function: dict[str, Any] = {"description": DESCRIPTIONS[own], "parameters": PARAMETERS[own]}
        if own is Kind.TOOL_SEARCH:  # its client describes it
            for name in ("description", "parameters"):
                raw = fields.get(name)
                if raw is not None and bytes(raw) != b"null":
                    function[name] = raw
        self._offers.append(_Offer(ClientTool(own, own.value), path, function, deferred=False))


def _identity(offer: _Offer) -> tuple[str | None, str]:
    return offer.tool.namespace, offer.tool.name


def _value(fields: dict[str, Raw], name: str, path: str) -> Any:
    raw = fields.get(name)
    return None if raw is None else decode(raw, f"{path}.{name}")


def _text(fields: dict[str, Raw], name: str, path: str) -> str | None:
    value = _value(fields, name, path)
    if not isinstance(value, str | None):
        raise refusal(f"{path}.{name}", f"'{name}' must be a string, got {kind(value)}.")
    return value


def _name(fields: dict[str, Raw], path: str) -> str:
    name = _text(fields, "name", path)
    if not name:
        raise refusal(f"{path}.name", f"A tool needs a name, a string that is not empty; got {shown(name)}.")
    return name


def _is_local(environment: Any) -> bool:
    """Whether the client runs it: in its own environment, or in none that is named. Others are containers of OpenAI."""
    return environment is None or (isinstance(environment, dict) and environment.get("type") == "local")


def _custom(fields: dict[str, Raw], path: str) -> tuple[dict[str, Any], str | None]:
    """A function of one string, which is the tool's free text; its grammar as a pattern, where it is one."""
    described = _text(fields, "description", path)
    shape = _value(fields, "format", path)
    pattern: str | None = None
    match shape:
        case None | {"type": "text"}:
            told = "The input of the tool, as plain text."
        case {"type": "grammar", "definition": str(definition), "syntax": ("lark" | "regex") as syntax}:
            told = f"The input of the tool, as text that fits this {syntax} grammar:\n{definition}"
            pattern = text_pattern(definition, syntax)
        case _:
            message = "A custom tool's format must be {'type': 'text'} or a grammar with its definition and syntax."
            raise refusal(f"{path}.format", message)
    function: dict[str, Any] = {}
    if described and (kept := without_words_on_json(described)):
        function["description"] = kept
    function["parameters"] = {
        "type": "object",
        "properties": {FIELD: {"type": "string", "description": told}},
        "required": [FIELD],
        "additionalProperties": False,
    }
    return function, pattern


def without_words_on_json(description: str) -> str:
    """The description without the sentences that forbid JSON."""
    if _ON_JSON.search(description) is None:
        return description
    return _SENTENCE.sub(lambda match: "" if _forbids_json(match[0]) else match[0], description).strip()


def _forbids_json(sentence: str) -> bool:
    return _ON_JSON.search(sentence) is not None and _NEGATION.search(sentence) is not None


def no_such_tool(message: str) -> ToolCallError:
    """The error for a choice that cannot be kept."""
    return ToolCallError("invalid_tool_choice", message, param="tool_choice")
