"""`response_template`: what a checkpoint itself declares of how its answers are read, compiled into the readers here.

Transformers has it since 5.13 (`transformers.utils.chat_parsing`, `docs: chat_response_parsing`): each field of a
message has `open` or `open_pattern` and `close` or `close_pattern`, a parser of its `content` (`json`, `xml-inline`,
`kv-lines`, `text`, …) and a `transform` that puts what was read in its place. Here `tool_calls` is of use, and what is
thought. Patterns are not run: a declaration is hostile as a template is. What of one is literal is taken; one
that is more than literals around a name, keys and values is not used, and the chat template tells instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import element_syntax, json_syntax
from .json_syntax import Syntax
from .layout import ARGUMENTS, NAME, Layout
from .probes import KEYS, VALUES

VERSION = 1
_MAX_PATTERN = 2000
_SPACES = re.compile(r"(?:\\s|\\n|\\r|\\t|\\ | |\n)(?:[*+?]\??|\{\d*,?\d*\})?")
_GROUP = "(?P<{}>"
_CONTENT = re.compile(r"\{content(?:\.(\w+))?\}|\{(\w+)\}")


class NotCompiled(ValueError):
    """The declaration is not of the forms that the readers know; the text says what is not."""


def compile_calls(declared: Mapping[str, Any]) -> Syntax:
    """The reader and writer of the declared calls. Raises NotCompiled."""
    if declared.get("version", VERSION) != VERSION:
        raise NotCompiled(f"version {declared.get('version')}")
    fields = declared.get("fields")
    field = fields.get("tool_calls") if isinstance(fields, Mapping) else None
    if not isinstance(field, Mapping):
        raise NotCompiled("no field tool_calls")
    name, arguments = _places(field)
    layout = _json_layout(field, name, arguments) if field.get("content") == "json" else _tag_layout(field, name)
    if layout.json:
        found = json_syntax.of_layout(layout)
    else:
        found = element_syntax.of_layout(layout, lambda _: _numbered(layout))
    if found is None:
        raise NotCompiled("no reader knows calls of this layout")
    return Syntax(f"declared by the checkpoint: {found.kind}", found.openers, found.write, found.trigger)


def compile_reasoning(declared: Mapping[str, Any]) -> tuple[str, str] | None:
    """The markers around what is thought, where they are literals."""
    fields = declared.get("fields")
    for name in ("reasoning_content", "reasoning", "thinking"):
        field = fields.get(name) if isinstance(fields, Mapping) else None
        if isinstance(field, Mapping):
            try:
                pair = _anchor(field, "open").strip(), _anchor(field, "close").strip()
            except NotCompiled:
                continue
            if all(pair):
                return pair
    return None


def _places(field: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The keys in JSON content that hold name and arguments; None where a pattern captures the name."""
    transform = field.get("transform")
    function = transform.get("function", transform) if isinstance(transform, Mapping) else transform
    if function is None or function == "{content}":
        return "name", "arguments"
    if not isinstance(function, Mapping):
        raise NotCompiled("a transform of another shape")
    name, arguments = (_CONTENT.fullmatch(str(function.get(key))) for key in ("name", "arguments"))
    if name is None or arguments is None:
        raise NotCompiled("a transform of another shape")
    if name[2] is not None and arguments[0] == "{content}":
        if name[2] != "name":
            raise NotCompiled(f"the capture {name[2]}")
        return None, None
    key, value = name[1] or name[2], arguments[1] or arguments[2]
    if not key or not value:
        raise NotCompiled("a transform of another shape")
    return key, value


def _json_layout(field: Mapping[str, Any], name: str | None, arguments: str | None) -> Layout:
    if field.get("content_args"):
        raise NotCompiled("JSON of a dialect")
    close = _anchor(field, "close")
    if name is None:
        before, after = _around(field, "open_pattern", "name")
        call = f"{before}{NAME}{after}{ARGUMENTS}{close}"
        return Layout(opening="", call=call, between="", closing="", json=True, region="{}")
    opening = _anchor(field, "open")
    call = f'{{"{name}": "{NAME}", "{arguments}": {ARGUMENTS}}}'
    if field.get("transform_each"):
        return Layout(opening=f"{opening}[", call=call, between=", ", closing=f"]{close}", json=True, region="{}")
    between = "\n" if field.get("repeats") else None
    return Layout(opening="", call=f"{opening}{call}{close}", between=between, closing="", json=True, region="{}")


def _tag_layout(field: Mapping[str, Any], name: str | None) -> Layout:
    arguments = field.get("content_args")
    if field.get("content") != "xml-inline" or not isinstance(arguments, Mapping) or name is not None:
        raise NotCompiled(f"content of the kind {str(field.get('content'))[:40]}")
    pattern = arguments.get("tag_pattern")
    if not isinstance(pattern, str):
        raise NotCompiled("no tag_pattern")
    before, rest = _split(pattern, "key")
    between, after = _split(rest, "value")
    parameter, is_, end = _plain(before), _plain(between), _plain(after)
    begin, behind = _around(field, "open_pattern", "name")
    close = _anchor(field, "close")
    region = f"{KEYS[0]}{is_}{VALUES[0]}{end}{parameter}{KEYS[1]}{is_}{VALUES[1]}"
    call = f"{begin}{NAME}{behind}{parameter}{ARGUMENTS}{end}{close}"
    return Layout(opening="", call=call, between="\n", closing="", json=False, region=region)


def _numbered(layout: Layout) -> str:
    """A call with a number, of which a declaration says nothing else than of a text."""
    is_ = layout.region[len(KEYS[0]) : layout.region.index(VALUES[0])]
    return f"days{is_}7"


def _anchor(field: Mapping[str, Any], kind: str) -> str:
    """The text of `open` or `close`, or of a pattern that is nothing but a text."""
    literal, pattern = field.get(kind), field.get(f"{kind}_pattern")
    if isinstance(literal, list) and literal:
        literal = literal[0]
    if isinstance(literal, str):
        return literal
    if isinstance(pattern, str):
        return _plain(pattern)
    raise NotCompiled(f"no {kind}")


def _around(field: Mapping[str, Any], key: str, group: str) -> tuple[str, str]:
    pattern = field.get(key)
    if not isinstance(pattern, str):
        raise NotCompiled(f"no {key}")
    before, after = _split(pattern, group)
    return _plain(before), _plain(after)


def _split(pattern: str, group: str) -> tuple[str, str]:
    """What stands before and behind a named group. Raises NotCompiled."""
    before, found, rest = pattern.partition(_GROUP.format(group))
    if not found or len(pattern) > _MAX_PATTERN:
        raise NotCompiled(f"no group {group}")
    depth, in_class, at = 1, False, 0
    while at < len(rest) and depth:
        char = rest[at]
        if char == "\\":
            at += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        else:
            depth += (char == "(") - (char == ")")
        at += 1
    if depth:
        raise NotCompiled("a group without an end")
    return before, rest[at:]


def _plain(pattern: str) -> str:
    """The text of a pattern that is one, white space as one character each. Raises NotCompiled."""
    text, at = "", 0
    while at < len(pattern):
        space = _SPACES.match(pattern, at)
        if space is not None:
            text += "\n" if "n" in space[0] else "" if space[0].rstrip("?")[-1:] in "*}" else " "
            at = space.end()
            continue
        char = pattern[at]
        if char == "\\":
            if at + 1 >= len(pattern) or pattern[at + 1].isalnum():
                raise NotCompiled(f"the pattern {pattern[:60]}")
            char, at = pattern[at + 1], at + 1
        elif char in ".^$*+?{}[]()|" and not (char == "{" and pattern[at + 1 : at + 2] in {'"', ""}):
            raise NotCompiled(f"the pattern {pattern[:60]}")
        text += char
        at += 1
        if pattern[at : at + 1] in set("*+?"):
            raise NotCompiled(f"the pattern {pattern[:60]}")
    return text
