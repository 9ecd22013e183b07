"""Calls whose name stands outside of the JSON: `f[ARGS]{…}`, `<|tool_call_begin|>functions.f:0<|…|>{…}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..sink import Sink
from .call_parts import PartReader
from .json_call_arguments import CallArguments

_WS = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[^\s<>{}\[\]\"'`|,;]{1,256}")
_FENCE = re.compile(r"`{3,}[A-Za-z_]*[ \t]*\r?\n?")
_MAX_NAME = 400
_MAX_GAP = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSyntax:
    """How a family writes such calls behind its opening marker.

    item: what opens each call (empty: the marker itself does). leading: an id stands before the name, up to this
    marker. name_ends: what ends a name (`{` stays for the arguments). id_end: behind this name end an id stands, up to
    the given marker. typed: the first name may be a mere `function`, and the name follows the separator on a line of
    its own. item_close, close: closing markers; all may be missing. item_missing: what opens the first call may be
    missing too. noise: text before the first call is none of the answer's. reopen: no marker closes a call, and a model
    that goes on directly behind the arguments has lost its way: that text is nobody's, up to one of these. identify:
    the written name, and whether a name is offered, to (name, id).
    """

    item: tuple[str, ...] = ()
    leading: str = ""
    name_ends: tuple[str, ...] = ("{",)
    call_id: tuple[str, str] | None = None
    typed: bool = False
    item_close: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    item_missing: bool = False
    noise: bool = False
    reopen: tuple[str, ...] = ()
    identify: Callable[[str, Callable[[str], bool]], tuple[str, str | None]] = lambda written, _: (written, None)


_ITEM, _NAME_PART, _ID, _BEFORE, _ARGUMENTS, _TAIL, _EMPTY, _LOST, _ASTRAY = range(9)


class NamedCalls(PartReader):
    """Reads such calls. See `Body`."""

    __slots__ = ("_args", "_fresh", "_id", "_opened", "_syntax", "_written")

    def __init__(self, sink: Sink, syntax: NamedSyntax) -> None:
        super().__init__(sink, _ITEM if syntax.item else _NAME_PART)
        self._syntax = syntax
        self._args: CallArguments | None = None
        self._written = ""
        self._id: str | None = None
        self._opened = False
        self._fresh = True  # no name has been read yet

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        if not self._opened:
            return
        args = self._args
        if args is None:
            if cut:
                self._opened = False
                self._sink.end(complete=False)
            else:
                self._end(empty=True)
            return
        if cut and not args.done:
            self._sink.args(args.release())
            self._opened = False
            self._sink.end(complete=False)
            return
        self._sink.args(args.close())
        self._end()

    # -- the parts ---------------------------------------------------------------------------------------------------

    def _item(self, s: str, i: int, *, last: bool) -> int:
        syntax = self._syntax
        j = _WS.match(s, i).end()  # type: ignore[union-attr]
        for marker in syntax.item:
            if s.startswith(marker, j):
                self._state = _NAME_PART
                return j + len(marker)
        for marker in syntax.close:
            if s.startswith(marker, j):
                self.done = True
                if self._fresh:
                    self._sink.accept()  # no call at all: nothing but markup
                return j + len(marker)
        if syntax.noise and self._fresh and j < len(s) and not _begins(s, j, (*syntax.item, *syntax.close)):
            return self._skip_noise(s, i, last=last)
        if j - i < _MAX_GAP and _begins(s, j, (*syntax.item, *syntax.close)):
            if not last:
                return -1
            if self._sink.committed:
                # Half a marker at the end of the text is markup too.
                self.done = True
                return len(s)
        if self._sink.committed:
            self.done = True
        elif syntax.item_missing and _NAME.match(s, j):
            self._state = _NAME_PART
            return j
        else:
            self.failed = True
        return i

    def _skip_noise(self, s: str, i: int, *, last: bool) -> int:
        """Something else than a call stands first: it is skipped where a call follows soon."""
        limit = i + _MAX_GAP
        items = [k for marker in self._syntax.item if (k := s.find(marker, i, limit)) >= 0]
        closes = [k for marker in self._syntax.close if (k := s.find(marker, i, limit)) >= 0]
        if items and min(items) < min(closes, default=limit):
            return min(items)
        if not closes and not last and len(s) < limit:
            return -1
        self.failed = True
        return i

    def _name(self, s: str, i: int, *, last: bool) -> int:
        syntax = self._syntax
        if syntax.leading and self._id is None:
            k = s.find(syntax.leading, i, i + _MAX_NAME)
            if k < 0:
                self.failed = last or len(s) - i >= _MAX_NAME
                return i if self.failed else -1
            self._id = s[i:k].strip()
            return k + len(syntax.leading)
        j = _WS.match(s, i).end()  # type: ignore[union-attr]
        m = _NAME.match(s, j)
        if m is None:
            if j == len(s) and not last and j - i < _MAX_GAP:
                return -1
            self.failed = True
            return i
        end = m.end()
        k = _WS.match(s, end).end()  # type: ignore[union-attr]
        if "\n" in syntax.name_ends and "\n" in s[end:k]:
            return self._named(m.group(), k)
        for marker in syntax.name_ends:
            if s.startswith(marker, k):
                if marker == "{":
                    return self._named(m.group(), k)
                k += len(marker)
                if syntax.call_id is not None and marker == syntax.call_id[0]:
                    self._written = m.group()
                    self._state = _ID
                    return k
                if syntax.typed:
                    return self._typed(s, i, k, m.group(), last=last)
                return self._named(m.group(), k)
        if not last and k - j < _MAX_NAME and _begins(s, k, syntax.name_ends):
            return -1
        self.failed = True
        return i

    def _typed(self, s: str, i: int, k: int, written: str, *, last: bool) -> int:
        """Behind the separator: the arguments, or a name on a line of its own."""
        j = _WS.match(s, k).end()  # type: ignore[union-attr]
        if j == len(s) and not last:
            return -1
        if j < len(s) and s[j] in '{`"':
            return self._named(written, k)
        m = _NAME.match(s, j)
        if m is None:
            return self._named(written, k)
        if m.end() == len(s):
            self.failed = last  # half a name
            return i if last else -1
        if written == "function" or s[m.end()] in "\r\n{` ":
            return self._named(m.group(), m.end())
        return self._named(written, k)

    def _named(self, written: str, k: int) -> int:
        name, call_id = self._syntax.identify(written, self._sink.offered)
        if not name:
            self.failed = True
            return k
        self._opened = True
        self._fresh = False
        self._state = _BEFORE
        self._sink.start(name, call_id or self._id)
        self._id = None
        return k

    def _call_id(self, s: str, i: int, *, last: bool) -> int:
        assert self._syntax.call_id is not None  # noqa: S101 - the state says so
        marker = self._syntax.call_id[1]
        k = s.find(marker, i, i + _MAX_NAME)
        if k < 0:
            if last or len(s) - i >= _MAX_NAME:
                self.failed = True
            return i if self.failed else -1
        self._id = s[i:k].strip()
        return self._named(self._written, k + len(marker))

    def _before(self, s: str, i: int, *, last: bool) -> int:
        """Behind the name: white space, perhaps a fence, then the arguments."""
        j = _WS.match(s, i, i + _MAX_GAP).end()  # type: ignore[union-attr]
        if j == len(s):
            return -1
        if s[j] == "`":
            m = _FENCE.match(s, j)
            if (m is None or m.end() == len(s)) and not last and len(s) - j < 32:
                return -1
            if m is not None:
                return m.end()
        if s[j] in "{[\"'n":
            self._args = CallArguments(s[j])
            self._state = _ARGUMENTS
            return j
        # No arguments at all: the closing marker, the next call, or something else follows.
        self._state = _EMPTY
        return i

    def _without_arguments(self, s: str, i: int, *, last: bool) -> int:  # noqa: ARG002 - as the other parts
        self._state = _LOST if self._syntax.item_close else _TAIL
        self._end(empty=True)
        return i

    def _arguments(self, s: str, i: int, *, last: bool) -> int:  # noqa: ARG002 - as the other parts
        if self._sink.flow is not None:
            return -1  # all is read, and more goes to `args` itself
        args = self._args
        assert args is not None  # noqa: S101 - set with the state
        begin = i
        i, text = args.feed(s, i)
        self._sink.args(text)
        stuck = args.stuck
        if stuck:
            self._sink.args(args.close())
        if args.done:
            self._state = _LOST if stuck and self._syntax.item_close else _TAIL
            self._end()
        elif i == len(s) and args.streams is not None:
            self._sink.flows(args.streams)
        return i if i > begin or args.done else -1

    def _end(self, *, empty: bool = False) -> None:
        args, self._args = self._args, None
        self._opened = False
        if empty:
            self._sink.args("{}")
        self._sink.end(repaired=args is not None and args.repaired)

    def _find_back(self, s: str, i: int, *, last: bool) -> int:
        """Behind a call that broke off: the next marker, if it stands near, tells that what is between is markup."""
        syntax = self._syntax
        limit = i + _MAX_GAP
        found = [k for m in (*syntax.item_close, *syntax.item, *syntax.close) if (k := s.find(m, i, limit)) >= 0]
        if not found and not last and len(s) < limit:
            return -1
        self._state = _TAIL
        k = min(found, default=i)
        if k > i:
            self._sink.passes_by()
        return k

    def _pass_over(self, s: str, i: int, *, last: bool) -> int:
        """In text that is nobody's: up to what may open a call or another turn."""
        markers = self._syntax.reopen
        found = [k for marker in markers if (k := s.find(marker, i)) >= 0]
        if found or last:
            self.done = True
            return min(found, default=len(s))
        keep = max(i, len(s) - max(map(len, markers)))
        while keep < len(s) and not any(marker.startswith(s[keep:]) for marker in markers):
            keep += 1
        return keep if keep > i else -1

    def _tail(self, s: str, i: int, *, last: bool) -> int:
        """Behind the arguments: a fence's end, the call's closing marker."""
        syntax = self._syntax
        if not syntax.item and not syntax.item_close:
            if i == len(s) and syntax.reopen and not last:
                return -1
            if syntax.reopen and i < len(s) and s[i] not in " \t\r\n[<`":
                self._state = _ASTRAY
            else:
                self.done = True
            return i
        limit = min(len(s), i + _MAX_GAP)
        k = i
        while k < limit and s[k] in "}`] \t\r\n":
            k += 1
        for marker in syntax.item_close:
            if s.startswith(marker, k):
                self._state = _ITEM
                self.done = not syntax.item
                return k + len(marker)
        if k < i + _MAX_GAP and _begins(s, k, (*syntax.item_close, *syntax.item, *syntax.close)):
            self.done = last  # the end of a fence, or half a marker, where the text ends is markup too
            return len(s) if last else -1
        if not syntax.item:
            self.done = True
            return i
        self._state = _ITEM
        return k if any(s.startswith(marker, k) for marker in (*syntax.item, *syntax.close)) else i

    _parts = (
        _item,
        _name,
        _call_id,
        _before,
        _arguments,
        _tail,
        _without_arguments,
        _find_back,
        _pass_over,
    )


def _begins(s: str, k: int, markers: tuple[str, ...]) -> bool:
    """Whether `s` ends in the middle of one of `markers`, which begins at `k`."""
    rest = s[k : k + 64]
    return len(s) - k < 64 and any(len(marker) > len(rest) and marker.startswith(rest) for marker in markers)
