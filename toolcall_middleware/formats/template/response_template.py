"""`response_template`: what a checkpoint itself declares of how its answers are read, compiled into the readers here.

Transformers has it since 5.13 (`transformers.utils.chat_parsing`, `docs: chat_response_parsing`): each field of a
message has `open` or `open_pattern` and `close` or `close_pattern`, a parser of its `content` and a `transform` that
puts what was read in its place. Here JSON calls between literal markers are used, and reasoning; whatever else a
checkpoint declares is left to its chat template. Patterns are not run, because a declaration is as hostile as a
template: a pattern that is nothing but a text and white space is that text. What is compiled must read back what it
writes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..syntax.json import Json
from ..syntax.shape import opener
from .probes import PLAIN, THOUGHT_FIELDS
from .shapes import Syntax, is_special, unmistakable
from .turns import ARGUMENTS, NAME, Layout

VERSION = 1
DECLARATION = "the checkpoint's response_template"
"""Its name in `Derived.unknown`."""
_MAX_PATTERN = 2000
_MAX_TEXT = 256  # characters of one marker: it is looked for in all that a model writes
_PIECE = re.compile(
    r"(?P<space>(?:\\s|\\n|\\r|\\t|\\ | |\n)(?:[*+?]\??|\{\d*,?\d*\})?)"
    r"|(?:\\(?P<escaped>[\W_])|(?P<char>[^\\.^$*+?{}\[\]()|]|\{(?=\"|\Z)))(?![*+?])",
    re.DOTALL,
)
"""A piece of a pattern that is literal text: white space, repeated or not, or one character."""
_PLACEHOLDER = re.compile(r"\{(\w{1,64}(?:\.\w{1,64}){0,4})\}")
_MAX_OPENS = 8
_READ_ANYWAY = {"unquoted_keys", "string_delims", "allow_non_json"}
_OTHER_TRANSFORM = "a transform that takes more than name and arguments out of one object of the content"
_QUOTES = (["'", "'"], ['"', '"'])


class NotCompiled(ValueError):
    """The declaration is not in a form that the readers know; the message says why."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a checkpoint declares of its answers."""

    calls: Syntax
    layout: Layout
    reasoning: tuple[str, str] | None


def compiled(declared: Mapping[str, Any]) -> Declared:
    """The declared calls and thoughts. Raises NotCompiled."""
    if declared.get("version", VERSION) != VERSION:
        raise NotCompiled(f"version {declared.get('version')}")
    field = _field(declared, "tool_calls")
    if field is None:
        raise NotCompiled("no field tool_calls")
    if (content := field.get("content", "text")) != "json":
        raise NotCompiled(f"content of the kind {str(content)[:40]}")
    _check_quotes(field.get("content_args") or {})
    begins = field.get("open")
    begins = begins if isinstance(begins, list) and begins else [begins]
    found = [_calls({**field, "open": begin}) for begin in begins[:_MAX_OPENS]]
    openers = {each.marker: opener(each.marker, each, special=is_special(each.marker)) for each in found}
    first = found[0]
    kind = f"declared by the checkpoint: JSON objects after {first.marker}"
    syntax = Syntax(kind, tuple(openers.values()), first)
    if not syntax.reads_back(syntax.written(PLAIN)):
        raise NotCompiled("calls that are written so are not read back")
    layout = Layout(opening=first.open, call=first.call, between=first.between, closing=first.close, region="{}")
    return Declared(syntax, layout, _reasoning(declared))


def _field(declared: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The field of a message that the checkpoint declares; None where it declares none."""
    fields = declared.get("fields")
    field = fields.get(name) if isinstance(fields, Mapping) else None
    return field if isinstance(field, Mapping) else None


def _check_quotes(arguments: Any) -> None:
    """Keys without quotes and single quotes are read anyway. Raises NotCompiled for other dialects of JSON."""
    if not isinstance(arguments, Mapping) or arguments.keys() - _READ_ANYWAY:
        raise NotCompiled("JSON of a dialect with other arguments")
    marks = arguments.get("string_delims") or []
    if not isinstance(marks, list) or any(pair not in _QUOTES for pair in marks):
        raise NotCompiled("JSON of a dialect with strings between other marks")


def _calls(field: Mapping[str, Any]) -> Json:
    """The calls that a field declares. Raises NotCompiled."""
    opening = _anchor(field, "open")
    close = _anchor(field, "close") if "close" in field or "close_pattern" in field else ""
    name, arguments, within = _keys(field)
    call = f'{{"{name}": "{NAME}", "{arguments}": {ARGUMENTS}}}'
    for key in reversed(within):
        call = f'{{"{key}": {call}}}'
    if field.get("transform_each"):
        found = Json(open=f"{opening}[", call=call, between=", ", close=f"]{close}")
    else:
        found = Json(call=f"{opening}{call}{close}", between="\n" if field.get("repeats") else None)
    if not unmistakable(found.marker):
        raise NotCompiled("no reader knows calls of this layout")
    return found


def _reasoning(declared: Mapping[str, Any]) -> tuple[str, str] | None:
    """The markers around reasoning, where they are literals."""
    for name in THOUGHT_FIELDS:
        with contextlib.suppress(NotCompiled):
            field = _field(declared, name) or {}
            pair = _anchor(field, "open").strip(), _anchor(field, "close").strip()
            if all(pair):
                return pair
    return None


def _keys(field: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """The keys under which a transform finds a call's name and arguments, and those of the objects around both."""
    transform = field.get("transform")
    function = transform.get("function", transform) if isinstance(transform, Mapping) else transform
    if function is None:
        function = "{content}"
    if isinstance(function, str):
        name, arguments = (*_path(function), "name"), (*_path(function), "arguments")
    elif isinstance(function, Mapping):
        name, arguments = _path(function.get("name")), _path(function.get("arguments"))
    else:
        raise NotCompiled(_OTHER_TRANSFORM)
    # In a list, the paths of an object begin in its entry.
    begin = () if field.get("transform_each") and not isinstance(function, str) else ("content",)
    if name[:-1] != arguments[:-1] or name[: len(begin)] != begin or len(name) == len(begin):
        raise NotCompiled(_OTHER_TRANSFORM)
    return name[-1], arguments[-1], name[len(begin) : -1]


def _path(text: Any) -> tuple[str, ...]:
    """The keys of a placeholder, `{content.a.b}`. Raises NotCompiled for anything else."""
    found = _PLACEHOLDER.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise NotCompiled(_OTHER_TRANSFORM)
    return tuple(found[1].split("."))


def _anchor(field: Mapping[str, Any], kind: str) -> str:
    """The text of `open` or `close`, or of a pattern that is nothing but a text."""
    literal, pattern = field.get(kind), field.get(f"{kind}_pattern")
    if isinstance(literal, list) and literal:
        if len(literal) > 1:
            raise NotCompiled(f"several texts in {kind}")
        literal = literal[0]
    text = literal if isinstance(literal, str) and literal else None
    if text is None:
        if not isinstance(pattern, str):
            raise NotCompiled(f"no {kind}")
        text = _plain(pattern)
    if len(text) > _MAX_TEXT:
        raise NotCompiled(f"a marker of more than {_MAX_TEXT} characters")
    return text


def _plain(pattern: str) -> str:
    """The text of a pattern that is one, white space as one character each. Raises NotCompiled."""
    if len(pattern) > _MAX_PATTERN:
        raise NotCompiled(f"a pattern of more than {_MAX_PATTERN} characters")
    pieces = list(_PIECE.finditer(pattern))
    if sum(len(piece[0]) for piece in pieces) < len(pattern):
        raise NotCompiled(f"the pattern {pattern[:60]}")
    spaces = ("\n" if "n" in piece[0] else "" if piece[0].rstrip("?")[-1:] in "*}" else " " for piece in pieces)
    return "".join(piece["escaped"] or piece["char"] or space for piece, space in zip(pieces, spaces, strict=True))
