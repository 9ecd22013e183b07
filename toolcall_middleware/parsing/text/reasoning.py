"""Reasoning in a text, and answers that begin in a thought which the prompt has opened.

`ReasoningSpan` emits reasoning unparsed: only its end counts.

Some models begin their calls without having ended the thought (Kimi K2, DeepSeek). A marker that is a token of its own
holds back the text from there on: if a closing tag follows, that text was part of the thought; if the text ends first,
the thought had ended at the marker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from ..events import CallEnd, CallStart, Event, Reasoning, Stop, Text
from ..patterns import half_at
from .grammar import Compiled
from .output import Output

_MAX_LATE = 1 << 20
MAX_KEPT = 1 << 20
"""Characters that are kept until it is decided whether there was a thought."""


@dataclass(frozen=True, slots=True)
class OpenedReasoning:
    """Reasoning that the prompt has opened: the answer begins in it."""

    opening: str = "<think>"
    """The tag at the end of the prompt."""
    close: str = "</think>"
    channel: bool = False
    """Whether the tags are a channel's, which is never content."""


class ReasoningSpan:
    """Reads reasoning."""

    __slots__ = ("_late_size", "_out", "_special", "late")

    def __init__(self, compiled: Compiled, out: Output) -> None:
        self._special = compiled.special
        self._out = out
        self.late: list[str] | None = None
        """Text that may be calls, after a thought without a closing tag; None where there is none."""
        self._late_size = 0

    def read(self, s: str, i: int, *, last: bool) -> int:
        """Read reasoning from `s[i]`, up to its end or a possible one. Returns the index after it."""
        out = self._out
        close = out.reasoning
        assert close is not None  # noqa: S101 - checked by the caller
        if self.late is not None:
            return self._wait(s, i, close)
        pos = s.find(close, i)
        if pos >= 0:
            out.emit_reasoning(s[i:pos])
            out.end_reasoning(close)
            return pos + len(close)
        special = self._special if close[0] == "<" else ()
        found = [k for marker in special if (k := s.find(marker, i)) >= 0]
        if found:
            out.emit_reasoning(s[i : min(found)])
            self.late = []
            self._late_size = 0
            return self._wait(s, min(found), close)
        keep = len(s) if last else half_at(s, (close, *special), i)
        out.emit_reasoning(s[i:keep])
        out.carry = s[keep:]
        return len(s)

    def take_late(self) -> str | None:
        """Return the held text where the text ends: the thought was never closed, and this is not part of it."""
        late, self.late = self.late, None
        return None if late is None else "".join(late)

    def _wait(self, s: str, i: int, close: str) -> int:
        """Hold back text after a marker that is a single token, until the closing tag."""
        late, out = self.late, self._out
        assert late is not None  # noqa: S101 - checked by the caller
        before = "".join(late[-len(close) :])[1 - len(close) :]
        pos = (before + s[i:]).find(close)
        if pos >= 0:
            end = i + pos + len(close) - len(before)
            late.append(s[i:end])
            self.late = None
            out.emit_reasoning("".join(late)[: -len(close)])
            out.end_reasoning(close)
            return end
        late.append(s[i:])
        self._late_size += len(s) - i
        if self._late_size > _MAX_LATE:
            self.late = None
            out.emit_reasoning("".join(late))
        return len(s)


class _Parser(Protocol):
    """As formats.base.StreamParser, which is above this room."""

    def feed(self, text: str, /) -> list[Event]: ...
    def finish(self, *, cut: bool = False) -> list[Event]: ...


class OpenedAnswer:
    """Parses an answer that begins in a thought which the prompt has opened, or is assumed to have opened.

    make: makes a parser of the answer without the thought. tags: those of the thought. sure: the prompt is known to
    open it, by the setting or because it is at hand; otherwise the answer decides. parsed: calls in thoughts are calls
    (`reasoning=parse`). repeats: reasoning is not part of the content.

    The closing tag ends the thought, also in code. Until then one parser reads the text as if there was no thought:
    its text is emitted as reasoning, and from its first call on everything is held back. A closing tag turns what is
    held back into reasoning. An answer that the model ends without one had no thought: what was emitted as reasoning is
    emitted as text too, and the calls are calls. Where the thought is sure, its text stays reasoning and only the calls
    are emitted. Inside a call the closing tag is data, if the call goes on to its end.
    """

    __slots__ = (
        "_ahead", "_apart", "_begun", "_carry", "_held", "_in_call", "_inside", "_make", "_over", "_parsed", "_parser",
        "_repeats", "_said", "_size", "_sure", "_tags", "is_whole", "opened", "unclosed",
    )  # fmt: skip

    def __init__(
        self,
        make: Callable[[], _Parser],
        tags: OpenedReasoning,
        *,
        sure: bool,
        parsed: bool = False,
        repeats: bool = False,
    ) -> None:
        self._make = make
        self._parser = make()
        self._tags = tags
        self._sure = sure
        self._parsed = parsed
        self._repeats = repeats
        self._over = False  # it is decided whether there was a thought, and the thought is over
        self._begun = False
        self._carry = ""  # a possible beginning of the closing tag
        self._ahead: list[str] = []  # text of which nothing was emitted
        self._held: list[Event] = []  # events of which nothing was emitted
        self._apart = False  # a call, or text that differs from what the model wrote: the rest is held back
        self._said: list[str] = []  # text that was emitted as reasoning
        self._size = 0  # characters that are kept
        self._in_call = False
        self._inside: list[str] | None = None  # the text after a closing tag that is inside a call
        self.is_whole = False
        """The whole answer is fed at once: nothing is emitted before it is decided whether it holds a thought."""
        self.opened: bool | None = None
        """Whether the answer shows that the prompt opens the thought; None where it shows nothing."""
        self.unclosed = False
        """The answer had no closing tag, and its calls and text were therefore emitted."""

    def skip(self) -> None:
        """There is no thought in the text: the engine's own parser has taken it out. No effect after the first text."""
        self._over = self._over or not self._begun

    def feed(self, text: str, /) -> list[Event]:
        """The next piece of the model's text."""
        if self._over:
            return self._parser.feed(text)
        self._begun = True
        text, self._carry = self._carry + text, ""
        if self._inside is not None:
            self._inside.append(text)
            return self._read(text)
        close = self._tags.close
        at = text.find(close)
        keep = at if at >= 0 else half_at(text, (close,))
        events = self._read(text[:keep])
        if self._over:
            return events + self._parser.feed(text[keep:])
        if at < 0:
            self._carry = text[keep:]
            return events
        rest = text[at + len(close) :]
        if not self._in_call:
            return events + self._close(rest)
        self._inside = [rest]
        return events + self._read(text[at:])

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The end of the text. cut: the model did not end it by itself."""
        parser = self._parser
        events = [] if self._over else self._read(self._carry)
        if not self._over:
            events += self._follow(parser.finish(cut=cut))
            if not self._over:
                return events + self._end(cut=cut)
            if self._parser is parser:
                return events
        return events + self._parser.finish(cut=cut)

    def _read(self, text: str) -> list[Event]:
        """Text in which the thought is not closed."""
        if not text:
            return []
        if not self._parsed and self._inside is None:
            self._ahead.append(text)
        self._size += len(text) if self._apart or self._repeats else 0
        events = self._follow(self._parser.feed(text))
        if self._size > MAX_KEPT and not (self._over or self.is_whole):
            events += self._end(cut=False)
        return events

    def _follow(self, events: list[Event]) -> list[Event]:
        """The parser's events. Returns those that can be emitted."""
        if events and not (self._apart or self._said or self._held) and _opens(events[0]):
            # The model opens a thought by itself: so the prompt has not.
            self._over, self.opened = True, False
            return events
        over = spans = False
        for event in events:
            kind = type(event)
            if kind is CallStart:
                self._in_call = True
            elif kind is CallEnd:
                self._in_call = False
                spans = self._inside is not None
                over = spans and event.complete  # type: ignore[union-attr]
            elif kind is Stop:
                over = not self._parsed
        self._held += events
        if spans and not over:
            return self._close("".join(self._inside or ()))
        if over and self._parsed:
            self._inside = None
        elif over:
            return self._end(cut=False)
        return self._emitted()

    def _emitted(self) -> list[Event]:
        """What of the events can be emitted while the thought may still be closed."""
        if self.is_whole or self._apart or not self._held:
            return []
        out: list[Event] = []
        ahead, at = "".join(self._ahead), 0
        for event in self._held:
            text = event.text if type(event) is Text else None
            if not self._parsed and (text is None or not ahead.startswith(text, at)):
                self._apart = True
                break
            if text is not None and (self._parsed or self._repeats):
                self._said.append(text)
            at += len(text or "")
            out.append(self._in_thought(event))
        del self._held[: len(out)]
        self._ahead = [ahead[at:]]
        return out

    def _close(self, rest: str) -> list[Event]:
        """Close the thought: `rest` is the beginning of the answer."""
        tags, self._over, self.opened = self._tags, True, True
        if self._parsed:
            out = [self._in_thought(event) for event in (*self._held, *self._parser.finish(cut=True))]
        else:
            out = [Reasoning(text, channel=tags.channel) for text in ("".join(self._ahead),) if text]
        out.append(Reasoning("" if tags.channel else tags.close, markup=True, channel=tags.channel))
        self._drop()
        self._parser = self._make()
        return out + self._parser.feed(rest)

    def _end(self, *, cut: bool) -> list[Event]:
        """The events of an answer without a closing tag."""
        tags, self._over, self.unclosed = self._tags, True, True
        out, said, ahead = self._held, self._said, "".join(self._ahead)
        self._drop()
        complete = any(type(event) is CallEnd and event.complete for event in out)
        if self._sure or (cut and not complete):
            if self._parsed or complete or not cut:
                return [self._in_thought(event) for event in out]
            # Half a call in a thought is a thought.
            return [Reasoning(ahead, channel=tags.channel)] if ahead else []
        self.opened = None if cut else False
        return [Text("".join(said)), *out] if said and self._repeats else out

    def _drop(self) -> None:
        self._ahead, self._held, self._said, self._inside = [], [], [], None

    def _in_thought(self, event: Event) -> Event:
        """The event as one inside a thought."""
        if type(event) is Text:
            return Reasoning(event.text, channel=self._tags.channel)
        if type(event) is CallStart:
            return msgspec.structs.replace(event, in_reasoning=True)
        return event


def _opens(event: Event) -> bool:
    """Whether a thought begins with it."""
    return type(event) is Reasoning and event.markup and bool(event.text)
