"""JSON Schemas as a prompt and a constrained decoder want them. Schemas are hostile input: nothing here follows a
reference out of the document, and what is nested deeper than `walk.MAX_DEPTH` is left as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..model import Tool
from .pointer import Scope, pointer_to, tokens_of
from .walk import MAX_DEPTH, changed, deeper, walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# JavaScript's integers: serializers write these limits where the author wrote none.
_SAFE_INTEGER = 2**53 - 1


def _is_void(key: str, value: Any) -> bool:
    """Whether a keyword says nothing: an annotation for tools, or a limit that no real value reaches."""
    if key in {"$schema", "title"}:
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if key in {"minimum", "exclusiveMinimum"}:
        return value <= -_SAFE_INTEGER
    if key in {"maximum", "exclusiveMaximum"}:
        return value >= _SAFE_INTEGER
    return False


def compact_schema(schema: Any) -> Any:
    """`schema` without `$schema`, titles and limits of 2^53. Properties of such names stay, as does all that a `$ref`
    may point to. The given value is not changed.
    """
    return changed(schema, lambda node: {key: value for key, value in node.items() if not _is_void(key, value)})


_OMITTED = frozenset({"$comment", "$id", "example", "examples"})
"""Keywords that a prompt does without. A constraint keeps them."""


def shortest_schema(schema: Any) -> Any:
    """`compact_schema` without what a prompt does not need: examples, comments, and whether other keys may come."""

    def shorter(node: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key not in _OMITTED}
        if not kept.get("additionalProperties"):  # false, and `{}`, which allows anything
            kept.pop("additionalProperties", None)
        return kept

    return changed(compact_schema(schema), shorter)


_ELSEWHERE = ("$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_ANY_OBJECT = {"type": "object"}


def calls_schema(tools: Sequence[Tool], *, parallel: bool) -> dict[str, Any]:
    """The schema of `{"tool_calls": [{"name", "arguments"}, …]}` over `tools`: at least one call, one if not
    `parallel`.

    Definitions of all tools are in the top `$defs` under names of their own, and references point to them there. The
    arguments of a tool whose references cannot be carried over (anchors, other documents, nothing there) are only said
    to be an object.
    """
    definitions: dict[str, Any] = {}
    return _with_definitions(_wrapped(tools, definitions, parallel=parallel), definitions)


def either_schema(answer: Mapping[str, Any], tools: Sequence[Tool], *, parallel: bool) -> dict[str, Any]:
    """The schema of an answer that either has the client's own schema `answer` or calls tools, as in `calls_schema`."""
    definitions: dict[str, Any] = {}
    own = _moved(Tool("answer", parameters=dict(answer)), definitions)
    return _with_definitions({"anyOf": [own, _wrapped(tools, definitions, parallel=parallel)]}, definitions)


def _wrapped(tools: Sequence[Tool], definitions: dict[str, Any], *, parallel: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool_calls": _calls(tools, definitions, parallel=parallel)},
        "required": ["tool_calls"],
        "additionalProperties": False,
    }


def call_list_schema(tools: Sequence[Tool], *, parallel: bool) -> dict[str, Any]:
    """The schema of the bare list `[{"name", "arguments"}, …]`, otherwise like `calls_schema`."""
    definitions: dict[str, Any] = {}
    return _with_definitions(_calls(tools, definitions, parallel=parallel), definitions)


def call_schema(tools: Sequence[Tool], *, arguments: str) -> dict[str, Any]:
    """The schema of one bare call, whose arguments are under the key `arguments`."""
    definitions: dict[str, Any] = {}
    return _with_definitions(_one_of(tools, definitions, arguments), definitions)


def _with_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$defs": definitions} if definitions else schema


def _calls(tools: Sequence[Tool], definitions: dict[str, Any], *, parallel: bool) -> dict[str, Any]:
    most = {} if parallel else {"maxItems": 1}
    return {"type": "array", "minItems": 1, **most, "items": _one_of(tools, definitions, "arguments")}


def _one_of(tools: Sequence[Tool], definitions: dict[str, Any], arguments: str) -> dict[str, Any]:
    entries = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, arguments: _moved(tool, definitions)},
            "required": ["name", arguments],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return entries[0] if len(entries) == 1 else {"anyOf": entries}


def _moved(tool: Tool, definitions: dict[str, Any]) -> dict[str, Any]:
    """The tool's schema for use inside another document; what it defines is added to `definitions`."""
    root: dict[str, Any] = compact_schema(tool.parameters)
    if not _is_movable(root):
        return dict(_ANY_OBJECT)
    places: dict[tuple[str, str], str] = {}
    for keyword in ("$defs", "definitions"):
        own = root.get(keyword)
        for name in own if isinstance(own, dict) else ():
            places[keyword, name] = _reserve(definitions, f"{tool.name}_{name}")
    home = ""  # the root's own definition, once something refers to it

    def repoint(node: dict[str, Any]) -> dict[str, Any]:
        nonlocal home
        out = dict(node)
        if "$ref" in node:
            tokens = tokens_of(node["$ref"])
            if len(tokens) > 1 and (tokens[0], tokens[1]) in places:
                out["$ref"] = pointer_to(["$defs", places[tokens[0], tokens[1]], *tokens[2:]])
            else:
                home = home or _reserve(definitions, tool.name)
                out["$ref"] = pointer_to(["$defs", home, *tokens])
        return out

    moved: dict[str, Any] = changed(root, repoint)
    for (keyword, name), place in places.items():
        definitions[place] = moved[keyword][name]
    arguments = {key: value for key, value in moved.items() if key not in {"$defs", "definitions"}}
    if "type" not in arguments and "$ref" not in arguments:
        arguments = {"type": "object", **arguments}
    if home:
        definitions[home] = arguments
        return {"$ref": pointer_to(["$defs", home])}
    return arguments


def _is_movable(root: dict[str, Any]) -> bool:
    scope = Scope(root)
    for node, _, depth in walk(root, 0, deeper):
        if depth >= MAX_DEPTH or any(isinstance(node.get(key), str) for key in _ELSEWHERE):
            return False
        if "$ref" in node:
            if scope.find(node["$ref"]) is None:
                return False
    return True


def _reserve(definitions: dict[str, Any], wanted: str) -> str:
    base = name = _NO_NAME.sub("_", wanted)
    count = 1
    while name in definitions:
        count += 1
        name = f"{base}_{count}"
    definitions[name] = {}
    return name
