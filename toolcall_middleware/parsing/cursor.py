"""The frame of the readers of calls: a place in a text that arrives in pieces, and the driver of a reader.

A reader is a generator (`Steps`) that goes straight through its syntax and moves a `Cursor`. All have five steps:

    def read_calls(c: Cursor) -> Steps[None]:
        while (yield from c.ask(_opens, c)):                # open: a marker, a bracket, a comma
            c.named = (yield from c.ask(_name, c)), None    # name: held until the arguments show that this is a call
            first = yield from c.char()
            yield from c.call(CallArguments(first))         # arguments: emitted as JSON, then the call ends
            yield from c.closer(("</call>",))               # close: comments, stray brackets and the marker

The fifth is the end of the text: `TextOver` is raised where the reader waits, and the driver (`CursorReader`) closes
the call that is named or open, or cuts it where the model was cut off. A reader that knows better catches it.
`NotACall`: what was read since the opening marker, or since the last call, is text.

A reader yields only in `more`, which waits for text. A question about the text (`_opens`, `_name`) is a plain function
that raises `Undecided` where more text may change its answer (`wait`); `ask` asks it again then.

White space before a tag stays unread until the tag is decided on (`k = c.after_space()`, then `c.i = …`): of a call
that is refused it is text. A test for "this follows" needs one for "this may follow", closing tags too. Each one
that is forgotten makes the result depend on how the text is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, Protocol, TypeVar

from .events import CallArgs, CallEnd, CallStart
from .patterns import WHITE_SPACE, anywhere, half, half_at, half_of
from .sink import Flow, Mode, Sink

MAX_GAP = 256  # characters of white space and stray text that are looked through
MAX_HELD = 1 << 16
"""Characters of a line that is held until the text ends: a longer one is text."""

MAX_EARLY = 1 << 20
"""Characters of the arguments that are held until a call's name is known: what has more is text."""

_STRAY = "}]` \t\r\n"


_T = TypeVar("_T")
_P = ParamSpec("_P")
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
    """A question about the text needs more of it: see `Cursor.ask`."""


class CopiedArguments(Protocol):
    """Reads a call's arguments and emits them as JSON: `CallArguments`, `LiteralReader`."""

    done: bool
    cut: bool
    repaired: bool

    @property
    def within(self) -> Flow | None: ...
    def feed(self, s: str, i: int, /, *, last: bool) -> tuple[int, str]: ...
    def close(self) -> str: ...
    def release(self) -> str: ...


@dataclass(slots=True, eq=False)
class Cursor:
    """A place in a text that arrives in pieces, and the call that is open there.

    After each yield `s` is another text, which begins at what was `i`: other indices into `s` are void.
    """

    sink: Sink
    opening: str = ""
    """The text that opened the markup."""
    at_start: bool = False
    """Whether the markup begins the answer."""
    s: str = ""
    i: int = 0
    """The text before it is read."""
    last: bool = False
    """Whether `s` holds all remaining text, so that every open decision must be made now."""
    over: bool = False
    """Whether the reader is being finished: `more` raises TextOver."""
    cut: bool = False
    """Whether the model was cut off. Known when `last` is."""
    named: tuple[str, str | None] | None = None
    """The name and id of a call that has not started: it starts when its arguments begin as an object."""
    early: list[str] = field(default_factory=list)
    """The JSON of the arguments of a call that has not started."""
    is_open: bool = False
    """Whether a call has started and not ended."""
    arguments: CopiedArguments | None = None
    """The reader of the call's arguments."""
    _early: int = 0  # characters of `early`
    _ends: bool = False  # no text follows `s`
    _mark: int = 0  # the text before it was `taken`

    def at(self, s: str, i: int, *, last: bool, cut: bool) -> None:
        """Go to `s[i]`. last: no text follows `s`."""
        self.s, self.i, self._mark = s, i, i
        self.cut, self._ends = cut, last
        self._decide()

    def _decide(self) -> None:
        # In a call that was cut off, open decisions stay open: what was emitted is then a prefix.
        self.last = self._ends and (self.over or not (self.cut and self.sink.mode is Mode.CALL))

    # -- the text here -------------------------------------------------------------------------------------------------

    def after_space(self, limit: int | None = None) -> int:
        """The index after the white space at the cursor, of which at most `limit` characters are skipped."""
        i = self.i
        m = WHITE_SPACE.match(self.s, i) if limit is None else WHITE_SPACE.match(self.s, i, i + limit)
        return m.end()

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

    def upto_half(self, markers: tuple[str, ...]) -> str:
        """Take the text up to where one of `markers` may begin; all of it where no more text follows."""
        s, i = self.s, self.i
        self.i = len(s) if self.last else half_at(s, markers, i)
        return s[i : self.i]

    def nearest(self, markers: tuple[str, ...], begin: int, end: int | None = None) -> int:
        """Where the first of `markers` begins in `s[begin:end]`; -1 where none does."""
        s = self.s
        return min([k for marker in markers if (k := s.find(marker, begin, end)) >= 0], default=-1)

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
            self.i = self.after_space()
            if self.i < len(self.s):
                return self.s[self.i]
            yield from self.more()

    def ask(self, question: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Steps[_T]:
        """The answer of `question`, asked again with more text while it raises Undecided. `args` hold no index."""
        while True:
            try:
                return question(*args, **kwargs)
            except Undecided:
                yield from self.more()

    def wait(self, begun: object) -> None:
        """Raise Undecided where something has `begun` that more text can complete."""
        if begun and not self.last:
            raise Undecided

    # -- questions -----------------------------------------------------------------------------------------------------

    def ahead(self, limit: int = MAX_GAP, *, needed: bool = False) -> int:
        """Where the next character is that is not white space; -1 where none is within `limit` characters.

        needed: the text cannot end here.
        """
        k = self.after_space(limit + 1)
        if k - self.i > limit or (k == len(self.s) and self.last and not needed):
            return -1
        if k == len(self.s):
            raise Undecided
        return k

    def found(self, pattern: re.Pattern[str], k: int) -> re.Match[str] | None:
        """The match of `pattern` at `k`, if one is there."""
        m = pattern.match(self.s, k)
        self.wait(m is None and half_of(pattern).match(self.s, k))
        return m

    def near(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first match of `pattern`, if one follows soon."""
        m = pattern.search(self.s, self.i, self.i + MAX_GAP)
        self.wait(m is None and len(self.s) < self.i + MAX_GAP)
        return m

    def upto(self, marker: str, most: int, i: int) -> int:
        """The index after `marker`. Raises NotACall where it is not within `most` characters from `i` on."""
        k = self.s.find(marker, i, i + most)
        if k < 0:
            self.wait(len(self.s) - i < most)
            raise NotACall
        return k + len(marker)

    def comments(self, k: int, markers: tuple[str, ...]) -> int:
        """The index of the first of `markers` after the comments at `s[k]`, or in the last of them; else -1.

        Stray closing brackets and a fence's end are passed over.
        """
        s, limit = self.s, k + MAX_GAP
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
                self.wait(len(s) < limit and (s[k:] in {"", "/"} or half(markers).match(s, k)))
                return -1
            found = self.nearest(markers, k, end if end >= 0 else limit)
            if found >= 0:
                return found if "{" not in s[k:found] else -1  # another call is there
            if end < 0:
                self.wait(len(s) < limit)
                return -1
            k = end

    # -- waits ---------------------------------------------------------------------------------------------------------

    def decided(self, markers: tuple[str, ...], limit: int | None = MAX_GAP) -> Steps[int]:
        """The index after the white space, once the text there is no longer the beginning of one of `markers`."""
        while True:
            k = self.after_space(limit)
            if self.last or self.s.startswith(markers, k) or not self.begins(markers, k):
                return k
            yield from self.more()

    def marker(self, markers: tuple[str, ...], limit: int | None = MAX_GAP) -> Steps[str]:
        """Go past the first of `markers` that follows white space, and return it; empty where none does."""
        return self.take(markers, (yield from self.decided(markers, limit)))

    def match(self, pattern: re.Pattern[str], limit: int = 0) -> Steps[re.Match[str] | None]:
        """The match of `pattern` after at most `limit` characters of white space, if one is there."""
        return self.ask(lambda: self.found(pattern, self.after_space(limit)))

    def through(self, markers: tuple[str, ...], say: Callable[[str], object]) -> Steps[None]:
        """Pass the text before the first of `markers` to `say`, as it arrives."""
        while (k := self.nearest(markers, self.i)) < 0:
            say(self.upto_half(markers))
            yield from self.more()
        say(self.s[self.i : k])
        self.i = k

    def closer(self, markers: tuple[str, ...], around: tuple[str, ...] = (), stray: str = _STRAY) -> Steps[str]:
        """Go past the first of `markers` that follows a call, and return it; empty where none does.

        Before it may be stray closing brackets, a fence's end (`stray`) and comments. Without it, they may be before
        one of `around`, which is not read. Half a marker at the end of the text is markup too.
        """
        return self.ask(self._closer, markers, around, stray)

    def _closer(self, markers: tuple[str, ...], around: tuple[str, ...], stray: str) -> str:
        every = (*markers, *around)
        s, k = self.s, self.i
        limit = min(len(s), k + MAX_GAP)
        while k < limit and s[k] in stray and not s.startswith(markers, k):
            k += 1
        if s.startswith(("/", "#"), k):
            k = max(k, self.comments(k, every))
        if marker := self.take(markers, k):
            return marker
        begun = k < self.i + MAX_GAP and self.begins(every, k)
        self.wait(begun)
        self.i = len(s) if begun else k if s.startswith(around, k) else self.i
        return ""

    # -- the call that is open -----------------------------------------------------------------------------------------

    def taken(self) -> str:
        """The text that was read since the last call of this method."""
        raw, self._mark = self.s[self._mark : self.i], self.i
        return raw

    def start(self, name: str, call_id: str | None = None) -> None:
        """A call starts. Raises Unreadable where arguments of it were read that are no object, unless it takes any."""
        early = "".join(self.early)
        if early and not early.startswith("{") and not self.sink.takes_any(name):
            raise Unreadable(name)
        self.early, self.named, self.is_open = [], None, True
        self.sink.consumed(self.taken())
        self.sink.start(name, call_id)
        self.sink.args(early)
        self._early = 0
        self._decide()

    def say(self, text: str) -> None:
        """Emit a piece of the arguments. A call with a name starts with the first piece; without, the piece is held."""
        if self.is_open:
            self.sink.args(text)
        elif text:
            self.early.append(text)
            self._early += len(text)
            if self.named is not None:
                self.start(*self.named)
            elif self._early > MAX_EARLY:
                raise NotACall

    def call(self, arguments: CopiedArguments) -> Steps[None]:
        """Read the call that is named, from its arguments on. Raises Unreadable where they are no object."""
        if self.named is not None and self.sink.takes_any(self.named[0]):
            self.start(*self.named)
        yield from self.copy(arguments)
        self.end()

    def copy(self, arguments: CopiedArguments) -> Steps[None]:
        """Read a call's arguments, up to their end or to where they break off."""
        self.arguments = arguments
        while True:
            self.i, text = arguments.feed(self.s, self.i, last=self.last)
            if text:
                self.say(text)
            if arguments.done:
                return
            if self.i == len(self.s) and self.is_open and arguments.within is not None:
                self.sink.flows(arguments.within)
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
        self.is_open = False
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
        """End the call that is named or open, if one is: it is closed, or cut where the model was cut off within it."""
        if self.named is None and not self.is_open:
            return
        arguments = self.arguments
        whole = not self.cut or (arguments is not None and arguments.done)
        if arguments is not None:
            self.say(arguments.close() if whole else arguments.release())
        elif whole:
            self.say("{}")
        if self.named is not None:
            self.start(*self.named)
        self.end(complete=whole)


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

    def fitting() -> Make | None:
        j = c.after_space(MAX_GAP)
        end = j + 2 * MAX_GAP
        c.wait(len(c.s) < end and undecided.fullmatch(c.s, j))
        return next((make for pattern, make in branches if pattern.match(c.s, j, end)), None)

    make = yield from c.ask(fitting)
    if make is None:
        raise NotACall
    yield from make(c)


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


def read_last_line(c: Cursor, make: Make, ends: tuple[str, ...]) -> Steps[None]:
    """Read calls without a marker after other text, by the reader of `make`, which reports to a sink of its own.

    They count only where nothing else is on their lines, nor after them up to the end of the answer. Nothing of them is
    reported before the text ends: what follows may show that they are an example.

    ends: what may follow them besides white space, because it ends the call or the turn.
    """
    refused: list[str] = []  # the text of calls that are not for the client
    inner = Sink(c.sink.offered, c.sink.schema, refused.append)
    place = Cursor(inner)
    body = CursorReader(place, _alone(place, make, ends))
    read = 0
    while not body.done:
        before = c.i
        c.i = body.step(c.s, before, last=c.last)
        inner.flow = None
        read += c.i - before
        if body.failed or refused or read > MAX_HELD or (c.last and not body.done):
            raise NotACall
        if not body.done:
            yield from c.more()
    for event in inner.events:
        match event:
            case CallStart(name, call_id):
                c.start(name, call_id)
            case CallArgs(text):
                c.say(text)
            case CallEnd():
                c.sink.coerced = event.coerced
                c.end()


def _alone(c: Cursor, make: Make, ends: tuple[str, ...]) -> Steps[None]:
    """Read calls, none of which is cut or repaired: text that is not JSON is data, or code. `ends` may follow them."""
    yield from make(c)
    after = anywhere("(?:[ \t\r\n]|" + "|".join(map(re.escape, ends)) + ")*")
    while not c.last or c.i < len(c.s):
        c.i = after.match(c.s, c.i).end()
        if c.i < len(c.s) and (c.last or not c.begins(ends, c.i)):
            raise NotACall
        if not c.last:
            yield from c.more()
    if any(isinstance(event, CallEnd) and (event.repaired or not event.complete) for event in c.sink.events):
        raise NotACall
