"""The tools of a Responses request, offered to the model as functions.

Functions and custom tools stay what they are, also inside a namespace and where the input brings them
(`additional_tools`, `tool_search_output`). Tools that the client runs and the API knows by type become functions, too.
What only OpenAI's servers can run is left out, and told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...errors import ToolCallError, shown
from ...json_schema.pattern import text_pattern
from ...model import DEFERRED_FIELD, LOADED_FIELD
from ...wire.json_reader import Reader
from .freeform import FIELD
from .local_kinds import DESCRIPTIONS, PARAMETERS
from .names import ClientTool, Kind, Names

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

    def add(self, tools: list[Reader], *, namespace: str | None = None, loaded: bool = False) -> None:
        """A list of tools. loaded: a search has found them, so they are no longer deferred. Raises ToolCallError."""
        for tool in tools:
            self._entry(tool, namespace, loaded=loaded)

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

    def _entry(self, tool: Reader, namespace: str | None, *, loaded: bool) -> None:
        variant = tool.text("type")
        match variant:
            case None:
                raise tool.error("type", "A tool needs a type.")
            case "function" | "custom":
                own = Kind(variant)
                function = _function(tool) if own is Kind.FUNCTION else _custom(tool)
                deferred = tool.value("defer_loading") is True and not loaded
                offered = ClientTool(own, _name(tool), namespace)
                self._offers.append(_Offer(offered, tool.path, function, deferred, loaded))
            case "namespace":
                if namespace is not None:
                    raise tool.error("type", "A namespace holds functions and custom tools, no namespaces.")
                if tool.given("tools") is None:
                    raise tool.error("tools", "A namespace needs 'tools', an array of tools.")
                self.add(tool.items("tools"), namespace=_name(tool), loaded=loaded)
            case "tool_search" if tool.value("execution") == "client":
                self._local(Kind.TOOL_SEARCH, tool)
            case "local_shell" | "apply_patch":
                self._local(_LOCAL_KINDS[variant], tool)
            case "shell" if _is_local(tool.value("environment")):
                self._local(Kind.SHELL, tool)
            case _:
                self._dropped.setdefault(_NOT_IN_HEADER.sub("_", variant)[:_MAX_DROPPED_NAME] or "unknown")

    def _local(self, own: Kind, tool: Reader) -> None:
        function: dict[str, Any] = {"description": DESCRIPTIONS[own], "parameters": PARAMETERS[own]}
        if own is Kind.TOOL_SEARCH:  # its client describes it
            function |= _spelled(tool, "description", "parameters")
        self._offers.append(_Offer(ClientTool(own, own.value), tool.path, function, deferred=False))


def _function(tool: Reader) -> dict[str, Any]:
    tool.text("description")
    # These leave as they came; what is wrong with them is found where all tools are checked.
    return _spelled(tool, "description", "parameters", "strict")


def _spelled(tool: Reader, *names: str) -> dict[str, Any]:
    return {name: raw for name in names if (raw := tool.given(name)) is not None}


def _identity(offer: _Offer) -> tuple[str | None, str]:
    return offer.tool.namespace, offer.tool.name


def _name(tool: Reader) -> str:
    name = tool.text("name")
    if not name:
        raise tool.error("name", f"A tool needs a name, a string that is not empty; got {shown(name)}.")
    return name


def _is_local(environment: Any) -> bool:
    """Whether the client runs it: in its own environment, or in none that is named. Others are containers of OpenAI."""
    return environment is None or (isinstance(environment, dict) and environment.get("type") == "local")


def _custom(tool: Reader) -> dict[str, Any]:
    """A function of one string, which is the tool's free text. Its grammar is in the string's description, and its
    pattern where it is a plain regular expression.
    """
    text: dict[str, Any] = {"type": "string"}
    described = tool.text("description")
    match tool.value("format"):
        case None | {"type": "text"}:
            told = "The input of the tool, as plain text."
        case {"type": "grammar", "definition": str(definition), "syntax": ("lark" | "regex") as syntax}:
            told = f"The input of the tool, as text that fits this {syntax} grammar:\n{definition}"
            if syntax == "regex" and (pattern := text_pattern(definition)):
                text["pattern"] = pattern
        case _:
            message = "A custom tool's format must be {'type': 'text'} or a grammar with its definition and syntax."
            raise tool.error("format", message)
    function: dict[str, Any] = {}
    if described and (kept := without_words_on_json(described)):
        function["description"] = kept
    function["parameters"] = {
        "type": "object",
        "properties": {FIELD: {**text, "description": told}},
        "required": [FIELD],
        "additionalProperties": False,
    }
    return function


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
