"""Readers and writers for layouts in which arguments stand one by one: tags, Python's, Gemma's, elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...parsing.text.grammar import Opener, Where
from .. import reading
from ..syntax.gemma import Gemma
from ..syntax.nested_xml import Elements
from ..syntax.openers import opener
from ..syntax.openers import shared as shared_opener
from ..syntax.pythonic import Python, double, single
from ..syntax.slots import Slots
from .compare import common_end, common_start, shared, tokens
from .json_syntax import Syntax, is_special, unmistakable
from .layout import ARGUMENTS, ID, NAME, NUMBER, Layout
from .probes import KEYS, VALUES

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
    flags = rendered({"flag": True, "other": False}) or ""
    calls = Python(
        open=layout.opening.lstrip() + layout.before,
        close=layout.closing.rstrip(),
        between=layout.between or ", ",
        json_words="true" in flags,
        quote=single if is_.endswith("'") else double,
    )
    marker = calls.marker
    openers: tuple[Opener, ...]
    if marker:
        if not unmistakable(marker):
            return None
        openers = (opener(marker, calls, special=is_special(marker)),)
    else:
        begun_list = r"\[[ \t\r\n]*"
        follow = begun_list + "[A-Za-z_]"
        openers = (
            shared_opener(
                "[",
                calls,
                follow,
                undecided=begun_list,
                where=Where.START,
                consume=False,
                as_last=(reading.LAST_PYTHON,),
            ),
        )
    return Syntax(f"a Python list of calls behind {marker or 'nothing'}", openers, calls)


def _gemma(layout: Layout, mark: str) -> Syntax | None:
    begin = layout.before.removesuffix("call:").strip()
    after = layout.after
    if not mark or not begin or not after.startswith(f"{mark}}}") or not unmistakable(begin):
        return None
    end = after[len(mark) + 1 :].strip()
    calls = Gemma(mark=mark, open=begin, close=end)
    return Syntax(f"Gemma's notation behind {begin}", calls.openers, calls)


# -- elements within elements -----------------------------------------------------------------------------------------


def _nested(layout: Layout, next_: str) -> Syntax | None:
    mark = next_.split(f"</{KEYS[0]}>", maxsplit=1)[0].strip()
    whole = layout.opening + layout.before
    wrapped = re.match(rf"{re.escape(mark)}<([\w:.-]+)>\s*{re.escape(mark)}<invoke name=\"\Z", whole.strip())
    if not mark or wrapped is None:
        return None
    calls = Elements(mark=mark, wrapper=wrapped[1])
    return Syntax(f"elements behind {calls.marker}", calls.openers, calls)


# -- tags -------------------------------------------------------------------------------------------------------------


def _tags(layout: Layout, is_: str, next_: str, rendered: Rendered) -> Syntax | None:
    value_end = common_start(next_, layout.after)
    parameter = common_end(next_[len(value_end) :], layout.behind(NAME))
    end = layout.after[len(value_end) :]
    written = _between_key_and_value(is_, rendered)
    if value_end + parameter != next_ or not parameter or len(tokens(value_end)) != 1 or not tokens(end) or not written:
        return None
    before, outer = layout.before, layout.opening.strip()
    slots = Slots(
        open=layout.opening.lstrip(),
        close=layout.closing.rstrip(),
        between=layout.between or "",
        call=before + "{name}" + layout.behind(NAME).removesuffix(parameter) + "{slots}" + end,
        slot=parameter + "{key}" + written + "{value}" + value_end,
        noise=(*tokens(before[: before.rfind("<")]), *tokens(end)[1:]) if outer else (),
    )
    try:
        slots.layout()
    except (LookupError, ValueError, re.error):
        return None
    marker, head = outer or slots.parts.wrapper, slots.parts.head.rstrip("\"'")
    openers: list[Opener] = []
    if marker and unmistakable(marker):
        openers.append(opener(marker, slots, special=is_special(marker)))
    if unmistakable(head):  # what opens before it may be missing
        openers.append(opener(head, slots, consume=False))
    if not openers:
        return None
    return Syntax(f"a tag for each argument behind {openers[0].marker}", tuple(openers), slots)


def _between_key_and_value(is_: str, rendered: Rendered) -> str | None:
    """The text between key and value, with `{kind}` or `{type}` where it says what the value is."""
    number = re.search(r"days(.*?)7", rendered({"days": 7}) or "", re.DOTALL)
    if number is None:
        return None
    if number[1] == is_:
        return is_
    start = is_[: shared(is_, number[1])]
    text, other = is_[len(start) :], number[1][len(start) :]
    alike = shared(text[::-1], other[::-1])
    end, text, other = text[len(text) - alike :], text[: len(text) - alike], other[: len(other) - alike]
    if text == "tru" and other == "fals":  # the last letter is the same
        text, other, end = "true", "false", end[1:]
    words = {("true", "false"): "{kind}", ("string", "number"): "{type}", ("string", "integer"): "{type}"}
    return start + words[text, other] + end if (text, other) in words else None
