"""A reader that is a generator: it waits where it yields, and what it says does not depend on the cuts."""

from __future__ import annotations

import gc
import itertools
import re
import weakref

import pytest

from toolcall_middleware.parsing import cursor as cursor_module
from toolcall_middleware.parsing.calls.call_arguments import CallArguments
from toolcall_middleware.parsing.cursor import Cursor, CursorReader, NotACall, Steps, TextOver, Undecided
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Text, UnknownCall
from toolcall_middleware.parsing.sink import Sink
from toolcall_middleware.parsing.text.scanner import Scanner

from .bodies import opener, scanner
from .streams import cut_at, one_cut, read, text_in

TEXT = 'a <c>f| {"x": [1, "é"]} </c> b'


def name_in(cursor: Cursor) -> Steps[str]:
    """A name of at most eight characters, and `|`."""
    end = yield from cursor.ask(lambda: cursor.upto("|", 8, cursor.i))
    name = cursor.s[cursor.i : end - 1]
    cursor.i = end
    return name


def named(cursor: Cursor) -> Steps[None]:
    """`<c>name|{…}</c>`."""
    cursor.start((yield from name_in(cursor)))
    yield from cursor.call(CallArguments((yield from cursor.char())))
    yield from cursor.closer(("</c>",))


def held(cursor: Cursor) -> Steps[None]:
    """The same. The name is held until the arguments show that it is a call."""
    cursor.named = (yield from name_in(cursor)), None
    yield from cursor.call(CallArguments((yield from cursor.char())))
    yield from cursor.closer(("</c>",))


def behind(cursor: Cursor) -> Steps[None]:
    """`<c>{…}name|`."""
    yield from cursor.copy(CallArguments((yield from cursor.char())))
    cursor.start((yield from name_in(cursor)))
    cursor.end()


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


def test_a_held_name_is_emitted_when_its_arguments_begin_as_an_object() -> None:
    reader = scanner([opener("<c>", held)])
    assert [reader.feed(char) for char in "<c>f| "] == [[]] * 6
    assert reader.feed("{") == [CallStart("f"), CallArgs("{")]
    for pieces in ([TEXT], TEXT, *one_cut(TEXT)):
        assert read(scanner([opener("<c>", held)]), pieces) == WHOLE, pieces


@pytest.mark.parametrize("text", ["<c>f|[1]</c>", '<c>f|"a"</c>', "<c>f|1 </c>"])
def test_a_held_name_is_text_where_its_arguments_are_no_object(text: str) -> None:
    for pieces in ([text], text):
        assert text_in(read(scanner([opener("<c>", held)]), pieces)) == text


def test_the_end_of_the_text_starts_a_held_call_and_ends_it() -> None:
    def ended(text: str, *, cut: bool) -> list[Event]:
        return read(scanner([opener("<c>", held)]), [text], cut=cut)

    for text in ("<c>f|", "<c>f| nul"):
        assert ended(text, cut=True) == [CallStart("f"), CallEnd(complete=False)]
    assert ended("<c>f|", cut=False) == [CallStart("f"), CallArgs("{}"), CallEnd()]
    assert text_in(ended("<c>f|[1", cut=True)) == "<c>f|[1"


def test_arguments_before_the_name_are_held_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '<c>{"x": [1]}f|'
    reader = scanner([opener("<c>", behind)])
    assert [reader.feed(char) for char in text[:-1]] == [[]] * (len(text) - 1)
    assert reader.feed("|") == [CallStart("f"), CallArgs('{"x": [1]}'), CallEnd()]
    assert text_in(read(scanner([opener("<c>", behind)]), "<c>[1]f|")) == "<c>[1]f|"
    monkeypatch.setattr(cursor_module, "MAX_EARLY", len('{"x": [1]}') - 1)
    assert text_in(read(scanner([opener("<c>", behind)]), text)) == text


def test_a_question_is_asked_again_until_the_text_decides_it() -> None:
    asked: list[str] = []

    def question(c: Cursor) -> str:
        asked.append(c.s[c.i :])
        m = c.found(re.compile("ab+c"), c.i)
        return m.group() if m else ""

    def steps(c: Cursor) -> Steps[None]:
        c.start((yield from c.ask(question, c)) or "none")
        c.end("{}")

    for text, calls in (("abbc", ["", "a", "ab", "abb", "abbc"]), ("abd", ["", "a", "ab", "abd"]), ("x", ["", "x"])):
        asked.clear()
        read(scanner([opener("<c>", steps)]), f"<c>{text}")
        assert asked == calls


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


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("// a </c>", 5),
        ("# a\n}</c>", 5),
        ("/* a */ ]</c>", 9),
        ("// {a} </c>", -1),  # another call is there
        ("/* {a} */</c>", 9),
        ("// a", None),
        ("/* a", None),
        ("/* a *", None),
        ("/", None),
        ("} </", None),
        ("} x", -1),
    ],
)
def test_a_marker_is_found_after_comments_or_in_the_last_of_them(text: str, index: int | None) -> None:
    cursor = at(text)
    if index is None:  # more text decides it
        with pytest.raises(Undecided):
            cursor.comments(0, ("</c>",))
    cursor.last = True
    assert cursor.comments(0, ("</c>",)) == (-1 if index is None else index)


def test_half_a_marker_is_taken_with_the_text_before_it_where_no_text_follows() -> None:
    cursor = at("ab</")
    assert cursor.upto_half(("</c>",)) == "ab"
    cursor.last = True
    assert cursor.upto_half(("</c>",)) == "</"


def test_white_space_at_the_end_is_undecided_where_more_is_needed() -> None:
    cursor = at("  ")
    cursor.last = True
    assert cursor.ahead() == -1
    with pytest.raises(Undecided):
        cursor.ahead(needed=True)


def test_only_a_call_that_the_model_was_cut_off_in_keeps_its_decisions_open() -> None:
    cursor = Cursor(Sink(bool, lambda _: None, lambda _: None))
    cursor.at("x", 0, last=True, cut=True)
    assert cursor.last
    cursor.start("f")
    assert not cursor.last
    cursor.end()
    assert cursor.last


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
