"""Readers and writers for layouts in which arguments stand one by one: tags, Python's, Gemma's, elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...parsing.calls.gemma_calls import GemmaSyntax
from ...parsing.calls.nested_calls import NestedCalls
from ...parsing.text.grammar import Opener, Where
from .. import reading
from ..syntax.gemma import GemmaWriter, gemma_calls
from ..syntax.nested_xml import NestedXmlWriter
from ..syntax.openers import Make, ignored, opener, pythonic_calls
from ..syntax.openers import shared as shared_opener
from ..syntax.pythonic import JSON_WORDS, PYTHON_WORDS, PythonicWriter, double, single
from ..syntax.slots import begun, slot_calls
from ..syntax.xml import Tags, TagWriter
from .compare import common_end, common_start, shared, tokens
from .json_syntax import Syntax, is_special, unmistakable
from .layout import ARGUMENTS, ID, NAME, NUMBER, Layout
from .probes import KEYS, VALUES

_SPACE = r"[ \t\r\n]{0,64}"
_CALLED = r"[^\s<>{}\[\]\"'`]{1,256}"
Rendered = Callable[[dict[str, Any]], str | None]
"""A turn with one call with these arguments, without what stands around calls in general."""


def of_layout(layout: Layout, rendered: Rendered) -> Syntax | None:
    """The syntax of a layout whose arguments are no JSON; None: no reader knows such."""
    if layout.order != NAME + ARGUMENTS or ID in layout.call or NUMBER in layout.call:
        return None
    found = re.fullmatch(
        f"{KEYS[0]}(?P<is>.*?){VALUES[0]}(?P<next>.*?){KEYS[1]}(?P<again>.*?){VALUES[1]}", layout.region, re.DOTALL
    )
    if found is None or found["is"] != found["again"]:
        return None
    is_, next_, head = found["is"], found["next"], layout.behind(NAME)
    if head.strip() == "(" and is_.strip().startswith("="):
        return _pythonic(layout, is_, rendered)
    if layout.before.endswith("call:") and head == "{" and is_.startswith(":"):
        return _gemma(layout, is_[1:])
    if f"</{KEYS[0]}>" in next_:
        return _nested(layout, next_)
    return _tags(layout, is_, next_, rendered)


# -- Python and Gemma -------------------------------------------------------------------------------------------------


def _pythonic(layout: Layout, is_: str, rendered: Rendered) -> Syntax | None:
    opening, closing = (layout.opening + layout.before).strip(), layout.closing.strip()
    if not opening.endswith("[") or not closing.startswith("]"):
        return None
    marker, close = opening[:-1].strip(), closing[1:].strip()
    openers: tuple[Opener, ...]
    if marker:
        if not unmistakable(marker):
            return None
        make = pythonic_calls(close=tuple(filter(None, [close])))
        openers = (opener(marker, make, special=is_special(marker)),)
    else:
        begun_list = r"\[[ \t\r\n]*"
        make = pythonic_calls(bare=True)
        follow = begun_list + "[A-Za-z_]"
        openers = (
            shared_opener(
                "[",
                make,
                follow,
                undecided=begun_list,
                where=Where.START,
                consume=False,
                as_last=(reading.LAST_PYTHON,),
            ),
        )
    flags = rendered({"flag": True, "other": False}) or ""
    write = PythonicWriter(
        layout.opening.lstrip() + layout.before,
        layout.closing.rstrip(),
        openers,
        between=layout.between or ", ",
        words=JSON_WORDS if "true" in flags else PYTHON_WORDS,
        quote=single if is_.endswith("'") else double,
    )
    return Syntax(f"a Python list of calls behind {marker or 'nothing'}", openers, write)


def _gemma(layout: Layout, mark: str) -> Syntax | None:
    begin = layout.before.removesuffix("call:").strip()
    after = layout.after
    if not mark or not begin or not after.startswith(f"{mark}}}") or not unmistakable(begin):
        return None
    end = after[len(mark) + 1 :].strip()
    openers = (opener(begin, gemma_calls(GemmaSyntax(end, mark))),)
    return Syntax(f"Gemma's notation behind {begin}", openers, GemmaWriter(mark, begin, end, openers))


# -- elements within elements -----------------------------------------------------------------------------------------


def _nested(layout: Layout, next_: str) -> Syntax | None:
    mark = next_.split(f"</{KEYS[0]}>", maxsplit=1)[0].strip()
    whole = layout.opening + layout.before
    wrapped = re.match(rf"{re.escape(mark)}<([\w:.-]+)>\s*{re.escape(mark)}<invoke name=\"\Z", whole.strip())
    if not mark or wrapped is None:
        return None
    wrapper = wrapped[1]
    openers = (opener(f"{mark}<{wrapper}>", lambda sink: NestedCalls(sink, mark, wrapper)),)
    return Syntax(f"elements behind {mark}<{wrapper}>", openers, NestedXmlWriter(mark, wrapper, openers))


# -- tags -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The texts of calls in tags."""

    outer: str
    """Before all calls."""
    wrapper: str
    """Before a call's own tag."""
    head: str
    """A call's tag up to the name; empty: the name has none."""
    rest: str
    """Behind the name."""
    parameter: str
    """Before a key."""
    value_end: str
    gap: str
    """Behind a value's closing tag."""
    end: str
    """Closes a call."""


def _tags(layout: Layout, is_: str, next_: str, rendered: Rendered) -> Syntax | None:
    value_end = common_start(next_, layout.after)
    parameter = common_end(next_[len(value_end) :], layout.behind(NAME))
    closing_tags = tokens(value_end)
    if value_end + parameter != next_ or not parameter or len(closing_tags) != 1:
        return None
    before = layout.before
    cut = len(before) if before.rstrip().endswith((">", "]")) else before.rfind("<")
    end = layout.after[len(value_end) :]
    if cut < 0 or not tokens(end):
        return None
    parts = _Parts(
        outer=layout.opening.strip(),
        wrapper=before[:cut].strip(),
        head=before[cut:].strip(),
        rest=layout.behind(NAME).removesuffix(parameter),
        parameter=parameter,
        value_end=closing_tags[0],
        gap=value_end[value_end.index(closing_tags[0]) + len(closing_tags[0]) :],
        end=end,
    )
    kinds = _kinds(is_, rendered)
    if kinds is None:
        return None
    made = _reader(parts, layout, kinds)
    if made is None:
        return None
    make, closes = made
    marker = parts.wrapper or parts.outer
    head = parts.head.rstrip("\"'")
    openers: list[Opener] = []
    if marker and unmistakable(marker):
        openers.append(opener(marker, make, special=is_special(marker)))
    if head and unmistakable(head):  # what opens before it may be missing
        openers.append(opener(head, make, consume=False))
    if parts.wrapper and parts.outer:
        openers += [ignored(each) for each in (parts.outer, layout.closing.strip()) if each]
    if not openers or (not head and not marker):
        return None
    written = Tags(
        opening=layout.opening.lstrip(),
        closing=layout.closing.rstrip(),
        between=layout.between or "",
        call=layout.before + "{name}" + parts.rest,
        call_end=end,
        parameter=parameter + "{key}" + kinds.written.removesuffix("\n" if kinds.lines else ""),
        parameter_end=parts.value_end,
        gap=parts.gap,
        key=r"[^<]{1,256}" if "</" in is_ else r"(?![\"'])[^\"'>\n]{1,256}",
        lines=kinds.lines,
        exact=kinds.typed,
        more=tuple(closes),
    )
    shown = marker or head
    return Syntax(f"a tag for each argument behind {shown}", tuple(openers), TagWriter(written, tuple(openers)))


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What stands between key and value."""

    written: str
    """With `{kind}` or `{type}` where it says what the value is."""
    pattern: str
    typed: bool
    lines: bool


def _kinds(is_: str, rendered: Rendered) -> _Kinds | None:
    number = re.search(r"days(.*?)7", rendered({"days": 7}) or "", re.DOTALL)
    if number is None:
        return None
    lines = is_.endswith("\n")
    if number[1] == is_:
        return _Kinds(is_, _loosely(is_), typed=False, lines=lines)
    start = is_[: shared(is_, number[1])]
    text, other = is_[len(start) :], number[1][len(start) :]
    alike = shared(text[::-1], other[::-1])
    end, text, other = text[len(text) - alike :], text[: len(text) - alike], other[: len(other) - alike]
    if text == "tru" and other == "fals":  # the last letter is the same
        text, other, end = "true", "false", end[1:]
    words = {("true", "false"): "{kind}", ("string", "number"): "{type}", ("string", "integer"): "{type}"}
    if (text, other) not in words:
        return None
    pattern = _loosely(start) + r"(?P<kind>\w{1,12})" + _loosely(end)
    if start.startswith('" ') and end == '">':  # an attribute, which models leave out
        pattern = rf'"(?:[ ]{{1,4}}{re.escape(start[1:].strip())}(?P<kind>\w{{1,12}})")?[ ]?>'
    return _Kinds(start + words[text, other] + end, pattern, typed=True, lines=lines)


def _loosely(text: str) -> str:
    """A pattern of a text whose white space may be less or more."""
    return _SPACE.join(map(re.escape, re.split(r"[ \t\r\n]+", text.strip())))


def _reader(parts: _Parts, layout: Layout, kinds: _Kinds) -> tuple[Make, list[str]] | None:
    closes = tokens(parts.end)
    close = layout.closing.strip() if parts.outer and not parts.wrapper else "".join(closes[1:])
    parameter = parts.parameter.strip().rstrip("\"'")
    quote = r"(?P<{0}>[\"']?)"
    keyed = "</" in kinds.written
    syntax: dict[str, Any] = {
        "slot_heads": (parameter,),
        "value_close": parts.value_end,
        "call_close": closes[0],
        "close": close,
        "newlines": not kinds.typed,
        "reopen": tuple(filter(None, [parts.wrapper])),
    }
    key = re.escape(parameter)
    if keyed:
        pair = tokens(kinds.written)
        if len(pair) != 2 or kinds.typed:
            return None
        syntax |= {
            "key_close": pair[0],
            "value_open": pair[1],
            "slot": re.compile(rf"(?:{key}{_SPACE}){{1,4}}(?P<key>[^<]{{1,256}}){re.escape(pair[0])}"),
            "slot_begun": re.compile(rf"(?:{key}{_SPACE}){{1,4}}[^<]{{0,256}}(?:</?[\w:.-]{{0,64}})?"),
        }
    else:
        tail = kinds.pattern.removeprefix('"').removeprefix(r"\"")
        syntax |= {
            "slot": re.compile(rf"{key}{quote.format('key_quote')}(?P<key>[^\"'>\n]{{1,256}}?)(?P=key_quote){tail}"),
            "slot_begun": re.compile(begun(parameter)),
        }
    call = _call_pattern(parts, closes[0], key, syntax)
    return slot_calls(**syntax, **call), closes


def _call_pattern(parts: _Parts, end: str, parameter: str, syntax: dict[str, Any]) -> dict[str, Any]:
    head, rest = parts.head.rstrip("\"'"), parts.rest.strip()
    if head:
        tail = _loosely(rest).removeprefix('"').removeprefix(r"\"")
        return {
            "call": re.compile(
                rf"{re.escape(head)}(?P<name_quote>[\"']?)(?P<name>[^\"'>\n]{{1,256}}?)(?P=name_quote){tail}"
            ),
            "call_heads": (head,),
            "call_begun": re.compile(begun(head)),
        }
    syntax["close"] = syntax["close"] or end
    between = f"(?:{_loosely(rest)}{_SPACE})?" if rest else ""
    return {
        "call": re.compile(rf"(?P<name>{_CALLED}){_SPACE}{between}(?={parameter}|{re.escape(end)}|\{{)"),
        "call_heads": (),
        "call_begun": re.compile(rf"{_CALLED}{_SPACE}{between}(?:<[^<>\n]{{0,64}})?"),
        "bare_name": True,
    }
