"""Time a chunk inside of a call's arguments, in every format: written as its own models write it."""

from __future__ import annotations

import contextlib
import json
import re
import statistics
from collections.abc import Callable
from typing import Any

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ToolFormat
from toolcall_middleware.model import ToolCall
from toolcall_middleware.settings import Settings

from . import material, measure
from .chunks import Case, read
from .report import Table

_OFFERING = material.request([material.write_file_tool()])
# What begins the part that is timed: written alike in all formats. And what is left of a call when it ends.
MARKS = "Reads the", "station 0"
_LEFT = 140


def run(*, smoke: bool) -> Table:
    """Every registered format, by the factor over one typed decode. What is above 5 is not wanted."""
    repeats, size = (1, 400) if smoke else (40, 2500)
    table = Table("Arguments, in each format: x one typed decode a chunk", ("a long string", "short values"))
    arguments = material.file_arguments(size), material.field_arguments(size)
    for name in registry.names():
        string, short = (
            ratio(registry.get(name), given, mark, repeats, format=name)
            for given, mark in zip(arguments, MARKS, strict=True)
        )
        table.add(name, f"{string:.2f}", f"{short:.2f}", "<= 5")
    return table


def case(fmt: ToolFormat, arguments: str, mark: str) -> Case:
    """A call of `arguments` as a format writes it; what follows `mark` is timed, and the call stays open."""
    written = fmt.render_calls([ToolCall(material.TOOL, arguments)])
    begin = written.index(mark)
    return Case(material.cut(written[:begin]), written[begin:-_LEFT])


def ratio(fmt: ToolFormat, arguments: str, mark: str, repeats: int, **settings: str) -> float:
    """What the middleware with these settings adds to a chunk of that case, by the factor over one typed decode."""
    one = case(fmt, arguments, mark)
    app = ToolCallMiddleware(one.stream, settings=Settings(**settings))
    _, got = read(measure.answer(app, _OFFERING))
    if not _arrived(arguments)(_as_far_as_it_goes(got)):
        raise AssertionError(f"{fmt.name}: arguments did not arrive: {got[:200]!r}")
    runs = [one.run(measure.NoOp(one.stream), _OFFERING), one.run(app, _OFFERING), one.decode()]
    rounds = measure.rounds(runs, repeats)
    return statistics.median((with_it - without) / decode for without, with_it, decode in rounds)


def _as_far_as_it_goes(cut: str) -> Any:
    """The value of JSON that was cut somewhere: a call that is cut is not closed by the middleware."""
    cut = re.sub(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$", r"\1", cut)  # half an escape
    closing = ""
    for mark in re.findall(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', cut):
        if mark in "[{":
            closing = {"[": "]", "{": "}"}[mark] + closing
        elif mark in "]}":
            closing = closing[1:]
    for last in ("", '"', "0", "null", ": null", '": null'):
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(cut + last + closing)
    raise AssertionError(f"not JSON that was cut: {cut[-80:]!r}")


def _arrived(arguments: str) -> Callable[[dict[str, Any]], bool]:
    """Whether arguments are those that were written, as far as they were."""
    given = json.loads(arguments)

    def arrived(got: dict[str, Any]) -> bool:
        if "rows" in given:
            rows = got.get("rows")
            if not isinstance(rows, list):
                return True  # between tags a list leaves at its end, which never comes
            return len(rows) > len(given["rows"]) - 5 and rows[:-1] == given["rows"][: len(rows) - 1]
        content: str = got["content"]
        return len(content) > len(given["content"]) - 2 * _LEFT and bool(given["content"].startswith(content))

    return arrived
