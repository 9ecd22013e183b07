"""Messages of the harmony format (gpt-oss): a header with channel and recipient, then the message's text.

`<|channel|>analysis<|message|>…` is reasoning, `final` and a `commentary` without recipient are content, and a
message to `functions.f`, on whatever channel, is a call. https://cookbook.openai.com/articles/openai-harmony

Muse Glimmer has recipients for channels: a message to `self` is reasoning, to `user` content, and one to a tool holds
the calls in tags of their own.
"""

from __future__ import annotations

import re

from ...json_schema.types import declared_types
from ..sink import Sink
from ..values.json_spelling import quoted
from .json_call_arguments import CallArguments

_WS = re.compile(r"[ \t\r\n]*")
_START = "<|start|>assistant"
_TO = "to="
_MESSAGE = "<|message|>"
_RECIPIENT = re.compile(r"(?:^|[\s>])to=([^\s<]+)")
_CHANNEL = re.compile(r"(?:<\|channel\|>|^)\s*(analysis|commentary|final)\b")
_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|eom|>", "<|eot|>", "<|end_of_text|>")
_OTHERS = ("<|start|>", "<|channel|>")
_MARKER = re.compile("|".join(re.escape(marker) for marker in (*_ENDS, *_OTHERS)))
_LONGEST = max(map(len, (*_ENDS, *_OTHERS)))
# Muse Glimmer may go on to the next message without having ended the one before.
_NEXT = re.compile(rf"{_MARKER.pattern}|[ ]?to=[\w.\-]{{1,64}}<\|message\|>")
_NEXT_PART = re.compile(r"(?:[ ]?to=[\w.\-]{0,64}(?:<[|a-z]{0,9})?|[ ]?to?|[ ])\Z")
_MAX_NEXT = 96
# What stands behind a marker that is one: a model may also write about markers.
_BEHIND_END = re.compile(r"[ \t\r\n]{0,64}(?:\Z|<(?:\Z|\|))")
_HEADER = r"(?:[^\n<]|<\|constrain\|>){1,128}"
_BEHIND_CHANNEL = re.compile(_HEADER + r"<\|message\|>")
_BEHIND_CHANNEL_PART = re.compile(rf"(?:{_HEADER})?(?:<[|a-z]{{0,12}})?\Z")
_HEADER_END = re.compile(r"<\|(?:message|start|end|call|return)\|>|\n")
_HEADER_ALONE = re.compile(
    r"(?:<\|start\|>assistant)?[ ]?(?:to=[\w.\-]*)?(?:<\|channel\|>[a-z]{0,10})?[ ]?(?:to=[\w.\-]*)?[ ]?"
    r"(?:<\|constrain\|>)?[ ]?(?:json|code)?[ ]?(?:<[|a-z]{0,9})?\s*"
)
_MAX_HEADER = 256
_NAMESPACE = "functions."
_NULL = re.compile(r"null(?!\w)")
_NULL_PART = re.compile(r"n(?:u(?:ll?)?)?\Z")
_SELF, _USER = "self", "user"
_NOBODY = frozenset({"assistant", _USER, _SELF, "all"})

_HEAD, _TEXT, _THOUGHT, _BEFORE, _EMPTY, _CALL, _PLAIN, _TAIL = range(8)


class HarmonyMessage:
    """Reads one message. `opening` is the marker that began it. See `Body`.

    tags: a tag with which calls begin in the text of a message to a tool; somebody else reads them.
    """

    __slots__ = ("_addressed", "_args", "_called", "_open", "_opening", "_sink", "_state", "_tags", "done", "failed")

    def __init__(self, sink: Sink, opening: str, *, tags: str = "") -> None:
        self.done = False
        self.failed = False
        self._sink = sink
        self._opening = opening
        self._tags = tags
        self._addressed = False  # a message to `self` or `user`
        self._state = _HEAD
        self._args: CallArguments | None = None
        self._called = ""
        self._open = False

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        n = len(s)
        # Arguments may have ended where the text does, and not here: see `Sink.flows`.
        while (i < n or self._state == _CALL) and not self.done and not self.failed and not self._sink.changed:
            state = self._state
            if state == _HEAD:
                j = self._header(s, i, last=last)
            elif state == _BEFORE:
                j = self._before(s, i, last=last)
            elif state == _EMPTY:
                self._end_call("{}", repaired=False)
                j = i
            elif state == _CALL:
                j = self._call(s, i)
                if self._state == _CALL:
                    return j
            elif state == _TAIL:
                j = self._tail(s, i, last=last)
            else:
                j = self._text(s, i, last=last)
            if j < 0:
                return i
            i = j
        return i

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        if self._state == _HEAD and (self._opening == _START or (cut and self._opening != _TO)):
            self._sink.accept()  # the beginning of a message that never came
        if self._state == _BEFORE and not self._open:
            self._start()  # the end is told when this is asked again
            return
        if not self._open:
            return
        self._open = False
        args = self._args
        if cut and (args is None or not args.done):
            self._sink.args(args.release() if args is not None else "")
            self._sink.end(complete=False)
            return
        if self._state == _PLAIN:
            self._sink.args('"}')
            self._sink.end(repaired=True)
            return
        self._sink.args(args.close() if args is not None else "{}")
        self._sink.end(repaired=args is not None and args.repaired)

    def _header(self, s: str, i: int, *, last: bool) -> int:
        m = _HEADER_END.search(s, i, i + _MAX_HEADER)
        header = self._opening + s[i : m.start() if m else i + _MAX_HEADER]
        if m is None and len(s) - i < _MAX_HEADER and (not last or _HEADER_ALONE.fullmatch(header)):
            return -1
        if m is None or m.group() != _MESSAGE:
            self.failed = True
            return i
        end = m.end()
        recipient = _RECIPIENT.search(header)
        channel = _CHANNEL.search(header)
        name = recipient.group(1) if recipient else ""
        if name and name not in _NOBODY:
            # A built-in tool (`to=browser.search`) is a call too; where it is not offered it goes where such calls go.
            self._called = name.removeprefix(_NAMESPACE)
            self._state = _BEFORE
            return end
        self._sink.accept()
        self._addressed = name in (_SELF, _USER)
        thought = name == _SELF or (channel is not None and channel.group(1) == "analysis")
        self._state = _THOUGHT if thought else _TEXT
        return end

    def _text(self, s: str, i: int, *, last: bool) -> int:
        """A message that is text, up to a marker that ends it."""
        at = i
        marker = _NEXT if self._addressed else _MARKER
        while True:
            m = marker.search(s, at)
            if m is None:
                keep = len(s) if last else self._sure(s, i)
                self._say(s[i:keep])
                return keep if keep > i else -1
            ends = self._ends(s, m, last=last)
            if ends is False:
                at = m.end()
                continue
            self._say(s[i : m.start()])
            if ends is None:
                return m.start() if m.start() > i else -1
            stop = m.end() if m.group() in _ENDS else m.start()
            if m.group().endswith(_MESSAGE):
                self._opening, self._state = "", _HEAD
            elif self._state == _PLAIN:
                self._end_call('"}', repaired=True)
            else:
                self.done = True
            return stop

    def _sure(self, s: str, i: int) -> int:
        """Up to where no marker may have begun."""
        keep = len(s)
        cut = s.rfind("<", max(i, keep - _LONGEST))
        if cut >= 0 and any(marker.startswith(s[cut:]) for marker in (*_ENDS, *_OTHERS)):
            keep = cut
        if self._addressed:
            part = _NEXT_PART.search(s, max(i, len(s) - _MAX_NEXT))
            keep = keep if part is None else min(keep, part.start())
        return keep

    def _ends(self, s: str, m: re.Match[str], *, last: bool) -> bool | None:
        """Whether a marker in the text is one."""
        if m.group().endswith(_MESSAGE):
            return True
        rest = s[m.end() : m.end() + 256]
        if m.group() in _ENDS:
            if _BEHIND_END.match(rest) is None:
                return False
            return True if last or rest.lstrip().startswith("<|") else None
        if m.group() == "<|start|>":
            return None if not last and not rest else rest[:1].isalpha()
        if _BEHIND_CHANNEL.match(rest):
            return True
        return None if not last and _BEHIND_CHANNEL_PART.match(rest) else False

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._state == _THOUGHT:
            self._sink.think(text)
        elif self._state == _TEXT:
            self._sink.emit_text(text)
        elif self._state == _PLAIN:
            self._sink.args(quoted(text))

    def _before(self, s: str, i: int, *, last: bool) -> int:
        """Behind the header of a call: its text must be JSON, or what a tool takes that takes text."""
        j = _WS.match(s, i).end()  # type: ignore[union-attr]
        if j == len(s):
            return j if j > i else -1
        rest = s[j:]
        if s[j] == "<":
            if self._tags and rest.startswith(self._tags):
                self._sink.accept()
                self.done = True
                return j
            if _MARKER.match(s, j):
                self._start()
                self._state = _EMPTY
                return j
            if not last and any(tag.startswith(rest) for tag in (*_ENDS, *_OTHERS, self._tags)):
                return -1
            self.failed = True
            return i
        if not last and _NULL_PART.match(rest):
            return -1
        if s[j] in "{[\"'" or _NULL.match(rest):
            self._start()
            self._args = CallArguments(s[j])
            self._state = _CALL
            return j
        key = self._text_key()
        if not key:
            self.failed = True
            return i
        # As for gpt-oss's own `python`.
        self._start()
        self._sink.args(f'{{"{quoted(key)}": "')
        self._state = _PLAIN
        return j

    def _start(self) -> None:
        self._open = True
        self._sink.start(self._called)

    def _text_key(self) -> str:
        """The parameter that takes the text of a message; none where the tool takes something else, or more."""
        schema = self._sink.schema(self._called) or {}
        properties, required = schema.get("properties"), schema.get("required")
        keys = [str(key) for key in properties] if isinstance(properties, dict) else []
        key = keys[0] if keys else "input"
        alone = not isinstance(required, list) or all(other == key for other in required)
        return key if alone and "string" in declared_types(schema, key) else ""

    def _call(self, s: str, i: int) -> int:
        args = self._args
        assert args is not None  # noqa: S101 - set with the state
        i, text = args.feed(s, i)
        self._sink.args(text)
        if args.stuck:
            self._sink.args(args.close())
        if args.done:
            self._end_call("", repaired=args.repaired)
        elif i == len(s) and args.streams is not None:
            self._sink.flows(args.streams)
        return i

    def _end_call(self, args: str, *, repaired: bool) -> None:
        self._sink.args(args)
        self._open = False
        self._args = None
        self._state = _TAIL
        self._sink.end(repaired=repaired)

    def _tail(self, s: str, i: int, *, last: bool) -> int:
        """Behind a call's arguments: its end, or the next message."""
        j = _WS.match(s, i, i + _MAX_HEADER).end()  # type: ignore[union-attr]
        for marker in _ENDS:
            if s.startswith(marker, j):
                self.done = True
                return j + len(marker)
        if not last and any(marker.startswith(s[j:]) for marker in _ENDS):
            return -1
        self.done = True
        return i


class Thought:
    """Reads a thought up to its closing marker, where the opening marker is a channel's (Gemma 4, Kimi K3). See `Body`.

    before: a marker that ends it too, and is not read.
    """

    __slots__ = ("_before", "_begun", "_close", "_sink", "done", "failed")

    def __init__(self, sink: Sink, close: str, before: str = "") -> None:
        sink.accept()
        self.done = False
        self.failed = False
        self._sink = sink
        self._close = close
        self._before = before
        self._begun = False

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        if not self._begun and i < len(s):
            self._begun = True
            i += s[i] == "\n"
        k = s.find(self._close, i)
        before = s.find(self._before, i, k if k >= 0 else None) if self._before else -1
        if k >= 0 or before >= 0:
            self._sink.think(s[i : before if before >= 0 else k])
            self.done = True
            return before if before >= 0 else k + len(self._close)
        keep = len(s)
        if not last:
            ends = (self._close, self._before)
            most = max(map(len, ends))
            keep = next(
                (at for at in range(max(i, keep - most + 1), keep) if any(end.startswith(s[at:]) for end in ends)), keep
            )
        self._sink.think(s[i:keep])
        return keep

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
