"""A reader that is a generator: it waits where it yields, and what it says does not depend on the cuts."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest

from toolcall_middleware.parsing.calls.call_arguments import CallArguments
from toolcall_middleware.parsing.cursor import Cursor, CursorReader, NotACall, Steps, TextOver
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Text, UnknownCall
from toolcall_middleware.parsing.sink import Sink
from toolcall_middleware.parsing.text.scanner import Scanner

from .bodies import opener, scanner
from .streams import cut_at, one_cut, read, text_in

TEXT = 'a <c>f| {"x": [1, "é"]} </c> b'


def named(cursor: Cursor) -> Steps[None]:
    """`<c>name|{…}</c>`, of a name of at most eight characters."""
    end = yield from cursor.ask(lambda: cursor.upto("|", 8, cursor.i))
    cursor.start(cursor.s[cursor.i : end - 1])
    cursor.i = end
    yield from cursor.call(CallArguments((yield from cursor.char())))
    yield from cursor.closer(("</c>",))


def fresh() -> Scanner:
    return scanner([opener("<c>", named)])


def at(text: str, i: int = 0) -> Cursor:
    cursor = Cursor(Sink(bool, lambda _: None, lambda _: None))
    cursor.s, cursor.i = text, i
    return cursor


WHOLE: list[Event] = [Text("a "), CallStart("f"), CallArgs('{"x": [1, "é"]}'), CallEnd(), Text(" b")]


def test_what_is_read_does_not_depend_on_the_cuts() -> None:
    for pieces in ([TEXT], TEXT, *one_cut(TEXT)):
        assert read(fresh(), pieces) == WHOLE, pieces
    for pair in itertools.combinations(range(1, len(TEXT)), 2):
        assert read(fresh(), cut_at(TEXT, pair)) == WHOLE, pair


def test_arguments_leave_as_they_arrive() -> None:
    reader = fresh()
    reader.feed("<c>f|")
    assert [reader.feed(char) for char in '{"x": "'] == [[CallArgs(char)] for char in '{"x": "']


@pytest.mark.parametrize("text", ["<c>ninechars|{}", "<c>no end", "<c>"])
def test_what_fails_leaves_as_text(text: str) -> None:
    assert fresh().feed(text[:3]) == []
    assert read(fresh(), text) == [Text(text)]


def test_no_more_is_held_than_the_limit() -> None:
    reader = fresh()
    assert [reader.feed(char) for char in "<c>ninecha"] == [[]] * 10
    assert text_in(reader.feed("r")) == "<c>ninechar"


def test_the_end_of_the_text_ends_the_call() -> None:
    assert read(fresh(), ['<c>f|{"x": [true'])[-1] == CallEnd(repaired=True)
    begun = '<c>f|{"x": [1'
    assert not read(fresh(), [begun])[-1].complete  # type: ignore[union-attr]
    assert read(fresh(), [begun], cut=True) == [CallStart("f"), CallArgs('{"x": [1'), CallEnd(complete=False)]
    assert read(fresh(), ["<c>f|"]) == [CallStart("f"), CallArgs("{}"), CallEnd()]
    assert read(fresh(), ["<c>f|"], cut=True) == [CallStart("f"), CallEnd(complete=False)]


def test_a_reader_may_end_its_call_itself_where_the_text_is_over() -> None:
    def steps(c: Cursor) -> Steps[None]:
        c.start("f")
        try:
            while True:
                yield from c.more()
        except TextOver:
            c.end('{"cut": true}' if c.cut else "{}")

    for cut, arguments in ((False, "{}"), (True, '{"cut": true}')):
        events = read(scanner([opener("<c>", steps)]), "<c>", cut=cut)
        assert events == [CallStart("f"), CallArgs(arguments), CallEnd()]


def test_a_refused_call_that_starts_where_the_text_is_over_is_reported() -> None:
    def steps(c: Cursor) -> Steps[None]:
        try:
            while True:
                yield from c.more()
        except TextOver:
            c.start("f")
            c.end("{}")

    events = read(scanner([opener("<c>", steps)], {"g": {}}, tell_unknown=True), "<c>")
    assert events == [Text("<c>"), UnknownCall("f")]


def test_a_text_that_ends_where_more_is_needed_is_no_call() -> None:
    def steps(c: Cursor) -> Steps[None]:
        try:
            while True:
                yield from c.more()
        except TextOver:
            raise NotACall from None

    assert read(scanner([opener("<c>", steps)]), "a <c>") == [Text("a <c>")]


def test_a_marker_begins_only_where_the_text_ends_in_it() -> None:
    cursor = at("x </")
    assert cursor.begins(("</c>",), 2)
    assert cursor.begins(("</c>",), 4)
    assert not cursor.begins(("</",), 2)
    assert not cursor.begins(("</c>",), 1)


def test_the_nearest_marker_is_looked_for_within_the_limit() -> None:
    cursor = at("..b.a", 1)
    assert cursor.nearest(("a", "b"), 1) == 2
    assert cursor.nearest(("a",), 1) == 4
    assert cursor.nearest(("a",), 1, 4) == -1


def test_a_reader_is_freed_without_the_collector() -> None:
    gc.disable()
    try:
        cursor = Cursor(Sink(bool, lambda _: None, lambda _: None))
        reader = CursorReader(cursor, named(cursor))
        del cursor
        reader.step("f|{", 0, last=False)
        steps = weakref.ref(reader._steps)
        del reader
        assert steps() is None
    finally:
        gc.enable()
