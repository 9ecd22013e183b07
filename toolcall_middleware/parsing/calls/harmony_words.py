"""Messages of the harmony format (gpt-oss) of which a backend has left out the special tokens: their words remain.

    analysisWe need the weather.assistantcommentary to=functions.lookup json{"city": "Paris"}assistantfinalIt is warm.

stands for `<|channel|>analysis<|message|>We need the weather.<|end|><|start|>assistant<|channel|>commentary
to=functions.lookup <|constrain|>json<|message|>…`. What a message is, harmony_messages.py tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..cursor import Cursor, NotACall, Steps, TextOver
from ..patterns import anywhere
from .call_arguments import CallArguments

_ANALYSIS, _FINAL = "analysis", "final"
_CHANNELS = (_ANALYSIS, "commentary", _FINAL)
_ROLE = "assistant"
_NEXT = re.compile(rf"{_ROLE}(?:(?:{'|'.join(_CHANNELS)})| to=functions\.)")
_ENDS = tuple(_ROLE + channel for channel in _CHANNELS)
_BEGINNINGS = (*_ENDS, f"{_ROLE} to=functions.")
_LONGEST = max(map(len, _BEGINNINGS))
_HEAD = anywhere(rf"(?:{_ROLE})?(?P<channel>{'|'.join(_CHANNELS)})?")
# The recipient may stand before the channel, and nothing is left between the two, nor before a type.
_CALL = re.compile(r"[ ]?to=(?P<to>[^\s<{]{1,256})[ ]{0,2}(?:commentary|analysis)?[ ]{0,2}(?:json|code)?\s{0,64}(?=\{)")
_GLUED = ("json", "code", "commentary", "analysis")
_TYPE_PART = "|".join(word[:size] for word in _GLUED for size in range(len(word), 0, -1))
_TO_PART = re.compile(
    rf"[ ]?to=[^\s<{{]{{0,256}}(?:[ ]{{1,2}}(?:commentary|analysis)?[ ]{{0,2}}(?:{_TYPE_PART})?)?\s{{0,64}}\Z"
)
_CALL_PART = re.compile(rf"[ ]?(?:to?)?\Z|{_TO_PART.pattern}")
_JSON = re.compile(r"[ ](?:json|code)[ ]?(?=\{)")
_JSON_PART = re.compile(r"[ ](?:[a-z]{0,4}|(?:json|code)[ ])\Z")
_RESULT = re.compile(r"functions\.[^\s<]{1,256} to=assistant")
_RESULT_PART = re.compile(r"functions\.[^\s<]{0,256}(?: [to=assistant]{0,12})?\Z")
_MAX_GAP = 64
_MAX_HEADER = 512
_NAMESPACE = "functions."


def called(recipient: str, offered: Callable[[str], bool]) -> str:
    """The name of the tool that a recipient is. What stands behind it may be glued to it, where a token is missing."""
    name = written = recipient.removeprefix(_NAMESPACE)
    while name and not offered(name):
        name = next((name.removesuffix(word) for word in _GLUED if name.endswith(word)), "")
    return name or written


def read_words(c: Cursor, *, strict: bool = False) -> Steps[None]:
    """Read the messages of an answer from the header of one on.

    strict: it is one only where it begins a call of an offered tool, if it names a recipient.
    """
    yield from Words(c, strict=strict).read()


class Words:
    """The messages while they are read."""

    __slots__ = ("_begins", "_cursor", "_strict", "_thinks", "_to")

    def __init__(self, cursor: Cursor, *, strict: bool = False) -> None:
        self._cursor = cursor
        self._to = ""  # the recipient of the call at hand
        self._strict = strict
        self._thinks = False
        self._begins = False  # the text ends in the recipient of a message

    def read(self) -> Steps[None]:
        """Read all messages, up to the final one or to what is none."""
        try:
            yield from self._messages()
        except TextOver:
            self.end_thought()
            if self._begins and self._cursor.cut:
                self._cursor.sink.accept()  # a message that never came
            raise

    def _messages(self) -> Steps[None]:
        cursor = self._cursor
        while True:
            channel = yield from self._header()
            if channel is None:
                return
            if not channel:
                if not (yield from self._call()):
                    return
                continue
            cursor.sink.accept()
            if channel == _FINAL or (channel != _ANALYSIS and (yield from self._is_json())):
                cursor.sink.says_more = True
                return
            self._thinks = channel == _ANALYSIS
            yield from self._text(cursor.sink.emit_reasoning if self._thinks else cursor.sink.emit_text)
            self.end_thought()
            cursor.sink.consumed(cursor.taken())
            cursor.sink.hold()

    def end_thought(self) -> None:
        """The reasoning is over, if there is any."""
        if self._thinks:
            self._thinks = False
            self._cursor.sink.end_reasoning()

    def _some(self) -> Steps[None]:
        """Where the text ends, nothing is decided."""
        while self._cursor.i == len(self._cursor.s):
            yield from self._cursor.more()

    def _header(self) -> Steps[str | None]:
        """The channel of the message; empty: a call stands here, None: no message does."""
        cursor = self._cursor
        while True:
            yield from self._some()
            s = cursor.s[cursor.i : cursor.i + _MAX_HEADER]
            head = _HEAD.match(s)
            at = head.end()
            call = _CALL.match(s, at)
            self._begins = call is None and _TO_PART.match(s, at) is not None
            if not self._begins and (call or cursor.last or not (_CALL_PART.match(s, at) or self._undecided(s))):
                break
            yield from cursor.more()
        channel: str = head["channel"] or ""
        offered = cursor.sink.offered
        if call is None:
            if not channel or s.startswith((" to=", "to="), at):
                raise NotACall
        else:
            if self._strict and not offered(called(call["to"], offered)):
                raise NotACall
            self._to = call["to"]
            channel, at = "", call.end()
        cursor.i += at
        self._strict = False
        return channel

    def _undecided(self, s: str) -> bool:
        return len(s) < _LONGEST and any(begun.startswith(s) for begun in (*_BEGINNINGS, *_CHANNELS))

    def _is_json(self) -> Steps[bool]:
        """Whether the text of a commentary is JSON, which its header says."""
        cursor = self._cursor
        while True:
            yield from self._some()
            m = _JSON.match(cursor.s, cursor.i)
            if m is not None:
                cursor.i = m.end()
                return True
            if cursor.last or not _JSON_PART.match(cursor.s, cursor.i):
                return False
            yield from cursor.more()

    def _text(self, say: Callable[[str], None]) -> Steps[None]:
        """A message that is text, up to the next one's header."""
        cursor = self._cursor
        while True:
            yield from self._some()
            s, i = cursor.s, cursor.i
            m = _NEXT.search(s, i)
            keep = m.start() if m is not None else len(s) if cursor.last else self._sure()
            if keep > i:
                say(s[i:keep])
            cursor.i = keep
            if m is not None:
                return
            yield from cursor.more()

    def _sure(self) -> int:
        """Up to where no header may have begun."""
        s = self._cursor.s
        for at in range(max(self._cursor.i, len(s) - _LONGEST), len(s)):
            if s[at] == "a" and any(begun.startswith(s[at:]) for begun in _BEGINNINGS):
                return at
        return len(s)

    def from_call(self, recipient: str) -> Steps[None]:
        """The same, where the header of a call has been read."""
        self._to = recipient
        if (yield from self._call()):
            yield from self.read()

    def _call(self) -> Steps[bool]:
        """Behind the header of a call. Whether another message follows."""
        cursor = self._cursor
        arguments = CallArguments(cursor.s[cursor.i], _ENDS, cursor.sink.arguments)
        yield from cursor.call(called(self._to, cursor.sink.offered), None, arguments)
        return (yield from self._another())

    def _another(self) -> Steps[bool]:
        """Whether another message follows a call."""
        cursor = self._cursor
        while True:
            yield from self._some()
            s, j = cursor.s, cursor.behind_space(_MAX_GAP)
            if _NEXT.match(s, j):
                cursor.i = j
                return True
            result = _RESULT.match(s, j)
            if result is not None:
                cursor.sink.stopped_at = result.group()
                cursor.i = result.end()
                return False
            rest = s[j : j + _LONGEST]
            begun = any(beginning.startswith(rest) for beginning in (*_BEGINNINGS, _NAMESPACE))
            if cursor.last or not (begun or _RESULT_PART.match(s, j)):
                return False
            yield from cursor.more()
