"""The frame of the readers of calls: a place in a text that arrives in pieces, and the driver of a reader.

A reader is a generator (`Steps`) that goes straight through its syntax and moves a `Cursor`:

    def _calls(c: Cursor) -> Steps[None]:
        name = yield from c.upto("|", 64)
        c.start(name)
        while (k := c.behind_space()) == len(c.s):
            yield from c.more()
        c.i = k
        yield from c.copy(CallArguments(c.s[k]))
        c.end()

It yields only in `more`, which waits for text. Two exceptions end it. `NotACall`: what was read since the
opening marker, or since the last call, is text. `TextOver`: the text is over. It is raised where the reader waits; a
reader that knows better than the driver how its call ends catches it. Else the driver closes the open call, or cuts it
where the model was cut off.

White space before a tag stays unread until the tag is decided on (`k = c.behind_space()`, then `c.i = …`): of a call
that is refused it is text. A test for "this follows" needs one for "this may follow", closing tags too. Each one
that is forgotten makes the result depend on how the text is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

from .events import CallArgs, CallEnd, CallStart, Event
from .patterns import WHITE_SPACE, anywhere, half, half_at
from .sink import Flow, Mode, Sink

MAX_GAP = 256  # characters of white space and stray text that are looked through
MAX_HELD = 1 << 16
"""Characters of a line that is held until the text ends: a longer one is text."""

_STRAY = "}]` \t\r\n"


def _after_comments(s: str, i: int, markers: tuple[str, ...], *, last: bool) -> int | None:
    """The index of the first of `markers` after the comments at `s[i]`, or in the last of them.

    -1 where none is there, None where more must be seen. Stray closing brackets and a fence's end are passed over.
    """
    k, limit = i, i + MAX_GAP
    while True:
        while k < min(len(s), limit) and s[k] in _STRAY:
            k += 1
        if s.startswith(markers, k):
            return k
        if s.startswith(("//", "#"), k):
            end = s.find("\n", k, limit)
        elif s.startswith("/*", k):
            end = s.find("*/", k + 2, limit)
            end += 2 * (end >= 0)
        else:
            break
        stop = end if end >= 0 else limit
        found = min([j for marker in markers if (j := s.find(marker, k, stop)) >= 0], default=-1)
        if found >= 0:
            return found if "{" not in s[k:found] else -1  # another call is there
        if end < 0:
            return None if not last and len(s) < limit else -1
        k = end
    rest = s[k:limit]
    more = rest in {"", "/"} or half(markers).match(s, k)
    return None if more and not last and len(s) < limit else -1


_T = TypeVar("_T")
Steps = Generator[None, None, _T]
"""The generator of a part of a syntax: it yields where it waits, and returns what it has found."""
Make = Callable[["Cursor"], Steps[None]]
"""Begins a reader at a cursor after the opening marker."""
Branch = tuple[re.Pattern[str], Make]
"""What the text after a marker matches, and the reader of that text: see `read_fork`."""


class NotACall(Exception):
    """The text at the cursor is not a call."""


class Unreadable(NotACall):
    """It would be a call of this tool, if its arguments were an object."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class TextOver(Exception):
    """The text is over where the reader waits for more of it."""


class Undecided(Exception):
    """A question about the text needs more of it. The asker waits and asks again."""


class CopiedArguments(Protocol):
    """Reads a call's arguments and emits them as JSON: `CallArguments`, `LiteralReader`."""

    done: bool
    stuck: bool
    cut: bool
    repaired: bool

    @property
    def within(self) -> Flow | None: ...
    def feed(self, s: str, i: int, /, *, last: bool) -> tuple[int, str]: ...
    def close(self) -> str: ...
    def release(self) -> str: ...


class Cursor:
    """A place in a text that arrives in pieces, and the call that is open there.

    After each yield `s` is another text, which begins at what was `i`: other indices into `s` are void.
    """

    __slots__ = ("_ends", "_mark", "_open", "arguments", "at_start", "cut", "i", "last", "opening", "over", "s", "sink")

    def __init__(self, sink: Sink, opening: str = "", *, at_start: bool = False) -> None:
        self.sink = sink
        self.opening = opening
        """The text that opened the markup."""
        self.at_start = at_start
        """Whether the markup begins the answer."""
        self.s = ""
        self.i = 0
        """The text before it is read."""
        self.last = self._ends = False
        """Whether `s` holds all remaining text, so that every open decision must be made now."""
        self.over = False
        """Whether the reader is being finished: `more` raises TextOver."""
        self.cut = False
        """Whether the model was cut off. Known when `last` is."""
        self.arguments: CopiedArguments | None = None
        """The reader of the open call's arguments."""
        self._open = False
        self._mark = 0

    def at(self, s: str, i: int, *, last: bool, cut: bool) -> None:
        """Go to `s[i]`. last: no text follows `s`."""
        self.s, self.i, self._mark = s, i, i
        self.cut, self._ends = cut, last
        self._decide()

    def _decide(self) -> None:
        # In a call that was cut off, open decisions stay open: what was emitted is then a prefix.
        self.last = self._ends and (self.over or not (self.cut and self.sink.mode is Mode.CALL))

    # -- the text here -------------------------------------------------------------------------------------------------

    def behind_space(self, limit: int | None = None) -> int:
        """The index after the white space at the cursor, of which at most `limit` characters are skipped."""
        i = self.i
        m = WHITE_SPACE.match(self.s, i) if limit is None else WHITE_SPACE.match(self.s, i, i + limit)
        return m.end()

    def more(self) -> Steps[None]:
        """Wait for more text. Raises TextOver where the text is over."""
        if not self.over:
            yield
        if self.over:
            raise TextOver

    def some(self) -> Steps[None]:
        """Wait until there is text that was not read."""
        while self.i == len(self.s):
            yield from self.more()

    def char(self) -> Steps[str]:
        """The next character that is not white space; the cursor is at it."""
        while True:
            self.i = self.behind_space()
            if self.i < len(self.s):
                return self.s[self.i]
            yield from self.more()

    def ahead(self, limit: int = MAX_GAP, *, needed: bool = False) -> Steps[int]:
        """Where the next character is that is not white space; -1 where none is within `limit` characters.

        needed: the text cannot end here.
        """
        while True:
            k = self.behind_space(limit + 1)
            if k - self.i > limit or (k == len(self.s) and self.last and not needed):
                return -1
            if k < len(self.s):
                return k
            yield from self.more()

    def take(self, markers: tuple[str, ...], k: int) -> str:
        """Go past the first of `markers` that is at `k`, and return it; empty where none is."""
        for marker in markers:
            if self.s.startswith(marker, k):
                self.i = k + len(marker)
                return marker
        return ""

    def begins(self, markers: tuple[str, ...], k: int) -> bool:
        """Whether the text ends in the middle of one of `markers`, which begins at `k`."""
        return bool(markers) and (k == len(self.s) or half(markers).match(self.s, k) is not None)

    def decided(self, markers: tuple[str, ...], limit: int | None = MAX_GAP) -> Steps[int]:
        """The index after the white space, once the text there is no longer the beginning of one of `markers`."""
        while True:
            k = self.behind_space(limit)
            if self.last or self.s.startswith(markers, k) or not self.begins(markers, k):
                return k
            yield from self.more()

    def marker(self, markers: tuple[str, ...], limit: int | None = MAX_GAP) -> Steps[str]:
        """Go past the first of `markers` that follows white space, and return it; empty where none does."""
        return self.take(markers, (yield from self.decided(markers, limit)))

    def match(self, whole: re.Pattern[str], part: re.Pattern[str], limit: int = 0) -> Steps[re.Match[str] | None]:
        """The match of `whole` after at most `limit` characters of white space. `part` matches what may become one."""
        while True:
            k = self.behind_space(limit)
            m = whole.match(self.s, k)
            if m is not None or self.last or not part.match(self.s, k):
                return m
            yield from self.more()

    def upto_half(self, markers: tuple[str, ...]) -> str:
        """Take the text up to where one of `markers` may begin; all of it where no more text follows."""
        s, i = self.s, self.i
        self.i = len(s) if self.last else half_at(s, markers, i)
        return s[i : self.i]

    def nearest(self, markers: tuple[str, ...], limit: int | None = None) -> int:
        """Where the first of `markers` begins, within `limit` characters; -1 where none does."""
        s, i = self.s, self.i
        end = None if limit is None else i + limit
        return min([k for marker in markers if (k := s.find(marker, i, end)) >= 0], default=-1)

    def through(self, markers: tuple[str, ...], say: Callable[[str], object]) -> Steps[None]:
        """Pass the text before the first of `markers` to `say`, as it arrives."""
        while (k := self.nearest(markers)) < 0:
            say(self.upto_half(markers))
            yield from self.more()
        say(self.s[self.i : k])
        self.i = k

    def upto(self, marker: str, most: int) -> Steps[str]:
        """Go past `marker` and return the text before it. Raises NotACall where it is not within `most` characters."""
        while (k := self.s.find(marker, self.i, self.i + most)) < 0:
            if self.last or len(self.s) - self.i >= most:
                raise NotACall
            yield from self.more()
        text = self.s[self.i : k]
        self.i = k + len(marker)
        return text

    def near(self, pattern: re.Pattern[str]) -> Steps[re.Match[str] | None]:
        """The first match of `pattern`, if one follows soon."""
        while (m := pattern.search(self.s, self.i, self.i + MAX_GAP)) is None:
            if self.last or len(self.s) >= self.i + MAX_GAP:
                return None
            yield from self.more()
        return m

    def closer(self, markers: tuple[str, ...], around: tuple[str, ...] = (), stray: str = _STRAY) -> Steps[str]:
        """Go past the first of `markers` that follows a call, and return it; empty where none does.

        Before it may be stray closing brackets, a fence's end (`stray`) and comments. Without it, they may be before
        one of `around`, which is not read. Half a marker at the end of the text is markup too.
        """
        every = (*markers, *around)
        while True:
            s, k = self.s, self.i
            limit = min(len(s), k + MAX_GAP)
            while k < limit and s[k] in stray and not s.startswith(markers, k):
                k += 1
            after = _after_comments(s, k, every, last=self.last) if s[k : k + 1] in ("/", "#") else k
            if after is not None:
                k = max(k, after)
                if marker := self.take(markers, k):
                    return marker
                begun = k < self.i + MAX_GAP and self.begins(every, k)
                if not begun or self.last:
                    self.i = len(s) if begun else k if s.startswith(around, k) else self.i
                    return ""
            yield from self.more()

    # -- the call that is open -----------------------------------------------------------------------------------------

    def taken(self) -> str:
        """The text that was read since the last call of this method."""
        raw, self._mark = self.s[self._mark : self.i], self.i
        return raw

    def start(self, name: str, call_id: str | None = None) -> None:
        """A call's name is complete."""
        self._open = True
        self.sink.consumed(self.taken())
        self.sink.start(name, call_id)
        self._decide()

    def call(self, name: str, call_id: str | None, arguments: CopiedArguments, text: str = "") -> Steps[None]:
        """Read a call from its arguments on, of which `text` was read. The name is held until they begin as an object.

        Raises NotACall where they are something else, unless the tool takes any.
        """
        if not self.sink.takes_any(name):
            try:
                while not (text or arguments.done):
                    self.i, text = arguments.feed(self.s, self.i, last=self.last)
                    if arguments.stuck:
                        text += arguments.close()
                    if not (text or arguments.done):
                        yield from self.more()
            except TextOver:
                text = arguments.release() if self.cut else arguments.close()
            if text and not text.startswith("{"):
                raise Unreadable(name)
        self.start(name, call_id)
        self.arguments = arguments
        self.sink.args(text)
        if not arguments.done:
            yield from self.copy(arguments)
        self.end()

    def copy(self, arguments: CopiedArguments) -> Steps[None]:
        """Read the open call's arguments, up to their end or to where they break off."""
        self.arguments = arguments
        sink = self.sink
        while True:
            self.i, text = arguments.feed(self.s, self.i, last=self.last)
            sink.args(text)
            if arguments.stuck:
                sink.args(arguments.close())
            if arguments.done:
                return
            if self.i == len(self.s) and arguments.within is not None:
                sink.flows(arguments.within)
            yield from self.more()

    def end(
        self,
        text: str = "",
        *,
        complete: bool = True,
        repaired: bool = False,
        closing: tuple[str, ...] | None = None,
    ) -> None:
        """The open call is over; `text` is the last of its arguments.

        closing: see `WrittenArguments.take`.
        """
        arguments, self.arguments = self.arguments, None
        self._open = False
        self.sink.args(text)
        complete = complete and not (arguments is not None and arguments.cut)
        repaired = repaired or (complete and arguments is not None and arguments.repaired)
        self.sink.consumed(self.taken())
        self.sink.end(complete=complete, repaired=repaired, closing=closing)
        self._decide()

    def skip_to(self, k: int) -> None:
        """Go to `k`, after a call that broke off: the text up to there is its markup, or text as the call is."""
        self.sink.consumed(self.taken())
        self.i = k
        self.sink.skip(self.taken())

    def text_over(self) -> None:
        """End the open call, if one is: it is closed, or cut where the model was cut off within it."""
        if not self._open:
            return
        arguments = self.arguments
        if self.cut and (arguments is None or not arguments.done):
            self.end("" if arguments is None else arguments.release(), complete=False)
        else:
            self.end("{}" if arguments is None else arguments.close())


class CursorReader:
    """Drives a reader: what follows an opening marker, up to the end of the call or calls.

    `done`: the syntax is complete; the rest belongs to another reader. `failed`: this is no call.
    """

    __slots__ = ("_cursor", "_steps", "done", "failed")

    def __init__(self, cursor: Cursor, steps: Steps[None]) -> None:
        self.done = False
        self.failed = False
        self._cursor = cursor
        self._steps = steps  # it knows the cursor and not this: no cycle

    def step(self, s: str, i: int, /, *, last: bool, cut: bool = False) -> int:
        """Read `s` from `i`; return the index after what was read. cut: the model did not end the text itself.

        An index below `len(s)` without `done` or `failed` means that the rest is too short to decide on; it is offered
        again with more text (or `last`: there is no more).
        """
        self._cursor.at(s, i, last=last, cut=cut)
        self._resume()
        return self._cursor.i

    def finish(self, *, cut: bool) -> None:
        """Report the end of the text. Sets `failed` where what was read since the last call could not have become
        another one: then it is text.
        """
        self._cursor.over = True
        self._cursor.at("", 0, last=True, cut=cut)
        self._resume()

    def _resume(self) -> None:
        cursor = self._cursor
        try:
            for _ in self._steps:
                break
            else:
                self.done = True
        except TextOver:
            cursor.text_over()
        except NotACall as error:
            self.failed = True
            if isinstance(error, Unreadable):
                cursor.sink.tell_unreadable(error.name)
        cursor.sink.consumed(cursor.taken())


# -- readers around those of calls ------------------------------------------------------------------------------------


def read_fork(c: Cursor, branches: Sequence[Branch], undecided: re.Pattern[str]) -> Steps[None]:
    """Read by the branch that matches the first characters after the marker (white space aside).

    `undecided` matches text that ends before the branch is decided.
    """
    while True:
        j = c.behind_space(MAX_GAP)
        if c.last or len(c.s) - c.i > MAX_GAP or not undecided.fullmatch(c.s, j):
            break
        yield from c.more()
    for pattern, make in branches:
        if pattern.match(c.s, j):
            yield from make(c)
            return
    raise NotACall


def read_nothing(c: Cursor) -> Steps[None]:
    """After a marker that is no text and belongs to no call."""
    c.sink.accept()
    yield from ()


def read_thought(c: Cursor, close: str, before: str = "") -> Steps[None]:
    """Read a thought up to its closing marker, where the opening marker is a channel's (Gemma 4, Kimi K3).

    before: a marker that ends it too, and is not read.
    """
    c.sink.accept()
    ends = (close, before) if before else (close,)
    yield from c.some()
    c.i += c.s[c.i] == "\n"
    yield from c.through(ends, c.sink.emit_reasoning)
    c.sink.end_reasoning()
    c.take((close,), c.i)


def read_last_line(cursor: Cursor, make: Make, ends: tuple[str, ...]) -> Steps[None]:
    """Read calls without a marker after other text, by the reader of `make`, which reports to a sink of its own.

    They count only where nothing else is on their lines, nor after them up to the end of the answer. Nothing of them is
    reported before the text ends: what follows may show that they are an example.

    ends: what may follow them besides white space, because it ends the call or the turn.
    """
    refused: list[str] = []  # the text of calls that are not for the client
    inner = Sink(cursor.sink.offered, cursor.sink.schema, refused.append)
    place = Cursor(inner)
    body = CursorReader(place, make(place))
    read = 0
    while not body.done:
        before = cursor.i
        cursor.i = body.step(cursor.s, before, last=cursor.last)
        inner.flow = None
        read += cursor.i - before
        if body.failed or refused or read > MAX_HELD or (cursor.last and not body.done):
            raise NotACall
        if not body.done:
            yield from cursor.more()
    if not (yield from _nothing_behind(cursor, ends)) or not all(map(_is_clean, inner.events)):
        raise NotACall
    for event in inner.events:
        match event:
            case CallStart(name, call_id):
                cursor.start(name, call_id)
            case CallArgs(text):
                cursor.sink.args(text)
            case CallEnd():
                cursor.sink.coerced = event.coerced
                cursor.end(complete=event.complete, repaired=event.repaired)


def _nothing_behind(cursor: Cursor, ends: tuple[str, ...]) -> Steps[bool]:
    """Whether the text ends here, white space and `ends` aside."""
    behind = anywhere("(?:[ \t\r\n]|" + "|".join(map(re.escape, ends)) + ")*")
    read = 0
    while True:
        begin = cursor.i
        cursor.i = behind.match(cursor.s, begin).end()
        read += cursor.i - begin
        if cursor.i < len(cursor.s) and (cursor.last or not cursor.begins(ends, cursor.i)):
            return False
        if cursor.last:
            return True
        if read > MAX_HELD:
            return False
        yield from cursor.more()


def _is_clean(event: Event) -> bool:
    """Whether this is not the end of a cut or repaired call: text that is not JSON is data, or code."""
    return not isinstance(event, CallEnd) or (event.complete and not event.repaired)
