"""`response_template`: what a checkpoint itself declares of how its answers are read, compiled into the readers here.

Transformers has it since 5.13 (`transformers.utils.chat_parsing`, `docs: chat_response_parsing`): each field of a
message has `open` or `open_pattern` and `close` or `close_pattern`, a parser of its `content` and a `transform` that
puts what was read in its place. Here `tool_calls` with `content` of `json` or `xml-inline` is used, and reasoning.
Patterns are not run, because a declaration is as hostile as a template. Of a pattern the literals are taken; where it
is more than literals around a name, keys and values the declaration is not used, and the chat template tells instead.
What is compiled must read back what it writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....parsing.text.grammar import Opener
from ... import reading
from .. import element_syntax, json_syntax
from ..json_syntax import Syntax
from ..layout import ARGUMENTS, NAME, Layout
from ..probes import KEYS, PLAIN, VALUES, as_call
from ..round_trip import Rendered, reads

VERSION = 1
_MAX_PATTERN = 2000
_MAX_TEXT = 256  # characters of one marker: it is looked for in all that a model writes
_SPACES = re.compile(r"(?:\\s|\\n|\\r|\\t|\\ | |\n)(?:[*+?]\??|\{\d*,?\d*\})?")
_GROUP = "(?P<{}>"
_PLACEHOLDER = re.compile(r"\{(\w{1,64}(?:\.\w{1,64}){0,4})\}")
_MAX_OPENS = 8
_SCALARS = frozenset({"text", "int", "float", "bool"})


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
    begins = field.get("open")
    begins = begins if isinstance(begins, list) and begins else [begins]
    places = _places(field)
    found = [_compiled({**field, "open": begin}, places) for begin in begins[:_MAX_OPENS]]
    openers = tuple(opener for each in found for opener in each.openers)
    known = {opener.marker for opener in openers if opener.marker}
    if not all(_comes_back(each, openers) for each in found) or len(known) < len(found):
        raise NotCompiled("calls that are written so are not read back")
    return Syntax(f"declared by the checkpoint: {found[0].kind}", openers, found[0].calls)


def _compiled(field: Mapping[str, Any], places: _Places) -> Syntax:
    content = field.get("content", "text")
    if not isinstance(content, str):
        raise NotCompiled(f"content of the kind {str(content)[:40]}")
    if content == "json":
        mark = _string_mark(field)
        if mark is not None:
            return _gemma(field, places, mark)
        found = json_syntax.of_layout(_json_layout(field, places))
    elif content == "xml-inline":
        found = _tags(field, places)
    else:
        raise NotCompiled(f"content of the kind {content[:40]}")
    if found is None:
        raise NotCompiled("no reader knows calls of this layout")
    return found


def _comes_back(syntax: Syntax, openers: tuple[Opener, ...]) -> bool:
    """Whether calls of plain arguments are read as they are written."""
    for sample in PLAIN:
        call = as_call("look_up", sample)
        text = syntax.write([call])
        if text is None or not reads((*openers, *reading.ANY_JSON), Rendered(text, (call,))):
            return False
    return True


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


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a transform finds a call's name and arguments."""

    group: str | None = None
    """The group of `open_pattern` that captures the name; None: the content holds it."""
    name: str = "name"
    arguments: str = "arguments"
    within: tuple[str, ...] = ()
    """Keys of the objects that these two keys stand in."""


def _places(field: Mapping[str, Any]) -> _Places:
    transform = field.get("transform")
    function = transform.get("function", transform) if isinstance(transform, Mapping) else transform
    if function is None or function == "{content}":
        return _Places()
    if isinstance(function, str) and (path := _path(function)) is not None and path[0] == "content":
        return _Places(within=path[1:])
    if not isinstance(function, Mapping):
        raise NotCompiled("a transform of another shape")
    name, wanted = _path(function.get("name")), function.get("arguments")
    if name is None:
        raise NotCompiled("a transform of another shape: a name that is not what the model wrote")
    if isinstance(wanted, Mapping):
        raise NotCompiled("a transform of another shape: arguments that are put together")
    arguments = _path(wanted)
    if arguments is None:
        raise NotCompiled("a transform of another shape: arguments that are not what the model wrote")
    if arguments == ("content",) and len(name) == 1 and name != ("content",):
        return _Places(group=name[0])
    if not field.get("transform_each"):
        if name[0] != "content" or arguments[0] != "content":
            raise NotCompiled("a transform of another shape: arguments out of a pattern")
        name, arguments = name[1:], arguments[1:]
    if not name or not arguments or name[:-1] != arguments[:-1]:
        raise NotCompiled("a transform of another shape: name and arguments stand in different places")
    return _Places(name=name[-1], arguments=arguments[-1], within=name[:-1])


def _path(text: Any) -> tuple[str, ...] | None:
    """The keys of a placeholder, `{content.a.b}`."""
    found = _PLACEHOLDER.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else tuple(found[1].split("."))


def _string_mark(field: Mapping[str, Any]) -> str | None:
    """What strings stand between in JSON of a dialect; None: quotes, as the reader knows them. Keys without quotes and
    single quotes are known to it. Raises NotCompiled.
    """
    arguments = field.get("content_args") or {}
    if not isinstance(arguments, Mapping) or arguments.keys() - {"unquoted_keys", "string_delims", "allow_non_json"}:
        raise NotCompiled("JSON of a dialect with other arguments")
    marks = arguments.get("string_delims") or []
    if not isinstance(marks, list):
        raise NotCompiled("JSON of a dialect: string_delims is no list")
    odd = [pair for pair in marks if pair not in (['"', '"'], ["'", "'"])]
    if not odd:
        return None
    pair = odd[0]
    if len(odd) > 1 or not isinstance(pair, list) or len(pair) != 2 or pair[0] != pair[1] or not str(pair[0]).strip():
        raise NotCompiled("JSON of a dialect: strings between different marks")
    return _short(str(pair[0]))


def _gemma(field: Mapping[str, Any], places: _Places, mark: str) -> Syntax:
    """`call:f{x:<mark>v<mark>}`, the one dialect of JSON that there is a reader for."""
    if places.group is None:
        raise NotCompiled("JSON of a dialect that holds the name")
    before, after = _around(field, places.group)
    if not before.endswith("call:") or after.strip():
        raise NotCompiled("JSON of a dialect without `call:` before the name")
    layout = Layout(
        opening="",
        call=f"{before}{NAME}{{{ARGUMENTS}{mark}}}{_anchor(field, 'close')}",
        between="",
        closing="",
        json=False,
        region=f"{KEYS[0]}:{mark}{VALUES[0]}{mark},{KEYS[1]}:{mark}{VALUES[1]}",
    )
    found = element_syntax.of_layout(layout, lambda _: None)
    if found is None:
        raise NotCompiled("no reader knows calls of this layout")
    return found


def _check_values(arguments: Mapping[str, Any]) -> None:
    """Values are typed by the tool's schema, and else read as JSON: more than that no `value_parser` may want."""
    parser = arguments.get("value_parser")
    name = parser.get("name", "text") if isinstance(parser, Mapping) else parser
    if name is not None and (not isinstance(name, str) or name not in {"json", *_SCALARS}):
        raise NotCompiled(f"values of the kind {str(name)[:40]}")
    if arguments.get("merge_duplicates"):
        raise NotCompiled("arguments that are lists of what stands several times")


def _json_layout(field: Mapping[str, Any], places: _Places) -> Layout:
    close = _anchor(field, "close") if "close" in field or "close_pattern" in field else ""
    if places.group is not None:
        before, after = _around(field, places.group)
        call = f"{before}{NAME}{after}{ARGUMENTS}{close}"
        return Layout(opening="", call=call, between="", closing="", json=True, region="{}")
    opening = _anchor(field, "open")
    call = f'{{"{places.name}": "{NAME}", "{places.arguments}": {ARGUMENTS}}}'
    for key in reversed(places.within):
        call = f'{{"{key}": {call}}}'
    if field.get("transform_each"):
        return Layout(opening=f"{opening}[", call=call, between=", ", closing=f"]{close}", json=True, region="{}")
    between = "\n" if field.get("repeats") else None
    return Layout(opening="", call=f"{opening}{call}{close}", between=between, closing="", json=True, region="{}")


def _tags(field: Mapping[str, Any], places: _Places) -> Syntax | None:
    arguments = field.get("content_args")
    if not isinstance(arguments, Mapping) or places.group is None:
        raise NotCompiled("xml-inline without arguments, or whose name is not captured")
    _check_values(arguments)
    pattern, opening = arguments.get("tag_pattern"), field.get("open_pattern")
    if not isinstance(pattern, str) or not isinstance(opening, str):
        raise NotCompiled("no tag_pattern, or no open_pattern")
    before, rest = _split(pattern, "key")
    between, after = _split(rest, "value")
    begin, behind = _split(opening, places.group)
    end, close = _short(_plain(after)), _anchor(field, "close")
    begin, behind, parameter, is_ = (_short(_plain(each)) for each in (begin, behind, before, between))
    region = f"{KEYS[0]}{is_}{VALUES[0]}{end}{parameter}{KEYS[1]}{is_}{VALUES[1]}"
    call = f"{begin}{NAME}{behind}{parameter}{ARGUMENTS}{end}{close}"
    layout = Layout(opening="", call=call, between="\n", closing="", json=False, region=region)
    return element_syntax.of_layout(layout, lambda _: _numbered(layout))


def _numbered(layout: Layout) -> str:
    """A call with a number, of which a declaration says nothing else than of a text."""
    is_ = layout.region[len(KEYS[0]) : layout.region.index(VALUES[0])]
    return f"days{is_}7"


def _anchor(field: Mapping[str, Any], kind: str) -> str:
    """The text of `open` or `close`, or of a pattern that is nothing but a text."""
    literal, pattern = field.get(kind), field.get(f"{kind}_pattern")
    if isinstance(literal, list) and literal:
        if len(literal) > 1:
            raise NotCompiled(f"several texts in {kind}")
        literal = literal[0]
    if isinstance(literal, str) and literal:
        return _short(literal)
    if isinstance(pattern, str):
        return _short(_plain(pattern))
    raise NotCompiled(f"no {kind}")


def _short(text: str) -> str:
    """The text, if it can be a marker."""
    if len(text) > _MAX_TEXT:
        raise NotCompiled(f"a marker of more than {_MAX_TEXT} characters")
    return text


def _around(field: Mapping[str, Any], group: str) -> tuple[str, str]:
    """The texts before and behind a named group in `open_pattern`. Raises NotCompiled."""
    pattern = field.get("open_pattern")
    if not isinstance(pattern, str):
        raise NotCompiled("no open_pattern")
    before, after = _split(pattern, group)
    return _short(_plain(before)), _short(_plain(after))


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
    if len(pattern) > _MAX_PATTERN:
        raise NotCompiled(f"a pattern of more than {_MAX_PATTERN} characters")
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
