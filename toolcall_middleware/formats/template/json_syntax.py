"""Readers and writers for layouts whose arguments are one JSON object: the whole call is JSON, or its name outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...model import ToolCall
from ...parsing.patterns import TOOL_NAME
from ...parsing.text.grammar import Opener
from ..prompt.escaping import arguments_json, dump
from ..syntax.json import WriteCalls, short_id, unmarked
from ..syntax.openers import bare_call, ignored, json_calls, named_calls, opener
from .compare import tokens
from .layout import ARGUMENTS, ID, NAME, NUMBER, Layout

_NAMES = frozenset({"name", "tool_name", "function", "tool", "recipient_name"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input", "params", "tool_input", "kwargs"})


@dataclass(frozen=True, slots=True)
class Syntax:
    """How calls are read and written."""

    kind: str
    """In words."""
    openers: tuple[Opener, ...]
    write: WriteCalls
    trigger: str = ""
    """How a call begins, where its arguments stand verbatim behind the name."""


def of_layout(layout: Layout) -> Syntax | None:
    """The syntax of a layout whose arguments are JSON; None: no reader knows such."""
    if ARGUMENTS not in layout.call or NAME not in layout.call:
        return None
    return _object(layout) or _named(layout)


# -- the whole call is JSON -------------------------------------------------------------------------------------------


def _object(layout: Layout) -> Syntax | None:
    sample = layout.call.replace(NAME, "n").replace(ARGUMENTS, "{}").replace(ID, "i").replace(NUMBER, "0")
    place = layout.call.index(NAME)
    at = layout.call.find("{", 0, place)
    if at < 0:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(sample, at)
    except ValueError:
        return None
    known = _keys(value)
    if known is None:
        return None
    before, after = layout.call[:at].strip(), sample[end:].strip()
    opening, closing = layout.opening.strip(), layout.closing.strip()
    if opening.endswith("[") and closing.startswith("]"):
        opening, closing = opening[:-1].rstrip(), closing[1:].lstrip()
    marker = before or opening
    name, arguments = known
    syntax: dict[str, Any] = {
        "keyed": not name,
        "close": tuple(filter(None, [after if before else after + closing])),
        "names": _NAMES | {name} if name else _NAMES,
        "arguments": _ARGUMENTS | {arguments} if arguments else _ARGUMENTS,
    }
    write = writer(layout, quoted=True)
    if not marker:
        if not name:
            return None
        return Syntax("a JSON object without a marker", (bare_call(dump(name), ":"),), unmarked(write))
    if not unmistakable(marker):
        return None
    openers = [opener(marker, json_calls(**syntax), special=is_special(marker))]
    if before:
        openers += [ignored(each) for each in (opening, closing) if each]
    kind = "JSON objects" if name else "JSON objects whose key is the name"
    return Syntax(f"{kind} behind {marker}", tuple(openers), write, marker)


def _keys(value: Any) -> tuple[str, str] | None:
    """The keys of name and arguments; empty ones where the name is the key."""
    if not isinstance(value, dict):
        return None
    if value == {"n": {}}:
        return "", ""
    for inner in (value, *(each for each in value.values() if isinstance(each, dict))):
        name = next((key for key, each in inner.items() if each == "n"), None)
        arguments = next((key for key, each in inner.items() if each == {}), None)
        if name is not None and arguments is not None:
            return name, arguments
    return None


def unmistakable(marker: str) -> bool:
    """Whether no ordinary text holds it."""
    return (
        any(len(token) > 4 for token in tokens(marker))
        or not marker.isascii()
        or re.search(r"\W{3}|<[|/]?[\w:.-]{4,}[= ]", marker) is not None
    )


def is_special(marker: str) -> bool:
    """Whether it looks like a token of its own, which no thought holds and which backends leave out of the text."""
    return marker.startswith(("<|", "<｜", "[", "]"))


# -- the name stands outside ------------------------------------------------------------------------------------------


def _named(layout: Layout) -> Syntax | None:
    order = layout.order
    if order not in {NAME + ARGUMENTS, ID + NAME + ARGUMENTS, NAME + ID + ARGUMENTS}:
        return None
    before, prefix = _word_split(layout.before)
    item = before.strip()
    if not item and not layout.opening.strip():
        return None
    parts: dict[str, Any] = {"item_close": tuple(filter(None, [_last_marker(layout.after)]))}
    if order.startswith(ID):
        leading = layout.behind(ID)
        if not leading.strip():
            return None
        parts["leading"] = leading.strip()
    middle = layout.behind(NAME)
    if order == NAME + ID + ARGUMENTS:
        ends = (middle.strip(), layout.behind(ID).strip())
        if not all(ends):
            return None
        parts["call_id"], parts["name_ends"] = ends, (*ends, "{")
    else:
        suffix, end = _name_end(middle)
        if not end:
            return None
        parts["name_ends"] = tuple(dict.fromkeys((end, "{")))  # models leave the separator out
        if prefix or suffix:
            parts["identify"] = _identify(prefix, suffix)
    marker, closing = layout.opening.strip(), layout.closing.strip()
    write = writer(layout, quoted=False)
    if not marker:
        if not unmistakable(item):
            return None
        make = named_calls(**parts)
        return Syntax(f"a name and JSON behind {item}", (opener(item, make, special=is_special(item)),), write, item)
    if not item or not (unmistakable(marker) and unmistakable(item)):
        return None
    make = named_calls(item=(item,), close=tuple(filter(None, [closing])), **parts)
    openers = [
        opener(marker, make, special=is_special(marker)),
        opener(item, make, consume=False, special=is_special(item)),
    ]
    return Syntax(f"a name and JSON behind {item}, all behind {marker}", tuple(openers), write, marker)


def _word_split(before: str) -> tuple[str, str]:
    """What opens a call, and the beginning of the name that is always the same (`functions.`)."""
    word = re.search(r"[\w.]+\Z", before)
    if word is None or not before[: word.start()].strip():
        return before, ""
    return before[: word.start()], word[0]


def _name_end(middle: str) -> tuple[str, str]:
    """The end of the name that is always the same (`:` and a number), and what ends the name."""
    middle = middle.partition("```")[0]
    found = re.match(rf"[\w:.\-]*{NUMBER}?[\w:.\-]*", middle)
    suffix = found[0] if found else ""
    rest = middle[len(suffix) :]
    end = rest.strip() or ("\n" if "\n" in rest else "")
    return suffix, end or ("" if suffix else "{")


def _last_marker(after: str) -> str:
    """What closes a call: braces and fences are the reader's affair."""
    return after.replace("`", "").strip()


def _identify(prefix: str, suffix: str) -> Callable[[str, Callable[[str], bool]], tuple[str, str | None]]:
    numbered = re.escape(suffix).replace(re.escape(NUMBER), r"\d+")
    form = re.compile(f"(?:{re.escape(prefix)})?(?P<name>.+?)(?:{numbered})?", re.DOTALL)
    with_id = NUMBER in suffix

    def identify(text: str, offered: Callable[[str], bool]) -> tuple[str, str | None]:
        found = form.fullmatch(text)
        name = text if found is None else found["name"]
        if not offered(name) and offered(text):
            name = text
        return name, text if with_id else None

    return identify


# -- writing ----------------------------------------------------------------------------------------------------------

_PART = re.compile(f"[{NAME}{ARGUMENTS}{ID}{NUMBER}]")


def writer(layout: Layout, *, quoted: bool) -> WriteCalls:
    """Writes calls as the layout has them. quoted: names stand within JSON, between quotes of the layout's."""

    def write(calls: Sequence[ToolCall]) -> str | None:
        if layout.between is None and len(calls) > 1:
            return None  # the template writes one call a turn
        if not quoted and not all(TOOL_NAME.fullmatch(call.name) for call in calls):
            return None
        done = [_call(number, call) for number, call in enumerate(calls, start=layout.first)]
        return layout.opening.lstrip() + (layout.between or "").join(done) + layout.closing.rstrip()

    def _call(number: int, call: ToolCall) -> str:
        parts = {
            NAME: dump(call.name)[1:-1] if quoted else call.name,
            ARGUMENTS: arguments_json(call.arguments),
            ID: short_id(call.id),
            NUMBER: str(number),
        }
        return _PART.sub(lambda found: parts[found[0]], layout.call)

    return write
