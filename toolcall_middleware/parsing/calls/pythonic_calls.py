"""Calls written as Python: `[f(x=1, y='a'), g()]`, or one a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..sink import Sink
from ..values.literal_reader import Arguments
from ..values.notation import Notation

_WS = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[^\W\d][\w.\-/:]{0,255}")
_KEYWORD = re.compile(r"[^\W\d]\w{0,255}[ \t\r\n]{0,64}(?:=(?!=)|\Z)")
_ANOTHER = re.compile(rf"\[[ \t\r\n]{{0,64}}({_NAME.pattern})[ \t\r\n]{{0,64}}\(")
_ANOTHER_PART = re.compile(rf"\[[ \t\r\n]{{0,64}}(?:{_NAME.pattern}[ \t\r\n]{{0,64}})?\Z")
_METHOD = ".call"  # `f.call(x=1)`: Llama 3.1's way to call what it was trained on
_MAX_HOLD = 512
_MAX_ECHO = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonicSyntax:
    """brackets: the calls stand in `[…]` (else one a line). close: closing markers, which may be missing.
    bare: no marker stands before it: the name must be offered, and `)` or a keyword must follow the parenthesis (or
    a literal, where the tool is known). echoed: the calls may come a second time directly behind the closing marker,
    and the marker again: that is no answer.
    """

    brackets: bool = True
    close: tuple[str, ...] = ()
    bare: bool = False
    echoed: bool = False


_OPEN, _CALL, _ARGUMENTS, _BETWEEN, _BEHIND, _ECHO = range(6)


class PythonicCalls:
    """Reads such calls. See `Body`."""

    __slots__ = ("_args", "_in_list", "_notations", "_sink", "_state", "_syntax", "done", "failed")

    def __init__(self, sink: Sink, syntax: PythonicSyntax) -> None:
        self.done = False
        self.failed = False
        self._sink = sink
        self._syntax = syntax
        self._state = _OPEN
        self._in_list = False
        self._args: Arguments | None = None
        self._notations = tuple(
            Notation(quotes=('"""', "'''", '"', "'"), keywords=True, ends=syntax.close, listed=listed)
            for listed in (False, True)
        )

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        n = len(s)
        while not self.done and not self.failed:
            state = self._state
            if state == _ARGUMENTS:
                return self._arguments(s, i, last=last)
            if state == _ECHO:
                return self._echo(s, i, last=last)
            k = _WS.match(s, i, i + _MAX_HOLD).end()  # type: ignore[union-attr]
            behind = state in (_BETWEEN, _BEHIND)
            if k == n and not (last and behind):
                return i
            if k == i + _MAX_HOLD:
                self.done = behind
                self.failed = not behind
                return i
            if state == _OPEN:
                j = self._open(s, i, k)
            elif state == _CALL:
                j = self._call(s, i, k, last=last)
            else:
                j = self._between(s, i, k, last=last)
            if j < 0 or self._sink.changed:
                return max(i, j)
            i = j
        return i

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        args = self._args
        if args is None:
            return
        self._args = None
        out: list[str] = []
        if not cut:
            args.close(out)
            out.append("}")
        self._sink.args("".join(out))
        self._sink.end(complete=not cut, repaired=args.repaired)

    def _open(self, s: str, i: int, k: int) -> int:
        self._state = _CALL
        if s[k] == "[":
            self._in_list = True
            return k + 1
        self.failed = self._syntax.brackets
        return i if self.failed else k

    def _call(self, s: str, i: int, k: int, *, last: bool) -> int:
        """A name and its parenthesis."""
        m = _NAME.match(s, k)
        j = k if m is None else _WS.match(s, m.end(), m.end() + _MAX_HOLD).end()  # type: ignore[union-attr]
        if m is not None and j == len(s) and not last:
            return -1
        if s[k] == "]" and self._in_list and self._sink.committed:
            self._in_list = False  # behind a comma
            self._state = _BEHIND
            return k + 1
        if m is None or not s.startswith("(", j):
            self.failed = True
            return i
        if self._syntax.bare and not self._sink.committed:
            fits = self._fits(m.group(), s, j + 1, last=last)
            if fits is None:
                return -1
            if not fits:
                self.failed = True
                return i
        self._state = _ARGUMENTS
        name = m.group()
        if not self._sink.offered(name) and self._sink.offered(name.removesuffix(_METHOD)):
            name = name.removesuffix(_METHOD)
        schema = self._sink.schema(name)
        self._args = Arguments(self._notations[self._in_list], "(", schema, self._sink.offered)
        self._sink.start(name)
        self._sink.args("{")
        return j + 1

    def _fits(self, name: str, s: str, k: int, *, last: bool) -> bool | None:
        """Whether a call that no marker announces is one."""
        if not self._sink.offered(name):
            return False
        k = _WS.match(s, k, k + _MAX_HOLD).end()  # type: ignore[union-attr]
        if k == len(s):
            return False if last else None
        keyword = _KEYWORD.match(s, k)
        if keyword is not None and keyword.end() == len(s) and not last:
            return None
        known = self._sink.schema(name) is not None
        return (
            s[k] == ")"
            or (keyword is not None and s[keyword.end() - 1] == "=")
            or (known and s[k] in "\"'{[-0123456789*")
        )

    def _arguments(self, s: str, i: int, *, last: bool) -> int:
        args = self._args
        assert args is not None  # noqa: S101 - set with the state
        out: list[str] = []
        i = args.feed(s, i, out, last=last)
        if args.done:
            out.append("}")
            self._args = None
            self._state = _BETWEEN
        self._sink.args("".join(out))
        if args.done:
            self._sink.end(repaired=args.repaired)
        elif i == len(s):
            self._sink.flows(args)
        return i

    def _echo(self, s: str, i: int, *, last: bool) -> int:
        """Behind the closing marker: the same once more, up to another one."""
        limit = i + _MAX_ECHO
        if s.startswith("[", i):
            ends = [k + len(marker) for marker in self._syntax.close if (k := s.find(marker, i, limit)) >= 0]
            if not ends and not last and len(s) < limit and (_ANOTHER.match(s, i) or _ANOTHER_PART.match(s, i)):
                return i
            i = min(ends, default=i) if _ANOTHER.match(s, i) else i
        elif i == len(s) and not last:
            return i
        self.done = True
        return i

    def _between(self, s: str, i: int, k: int, *, last: bool) -> int:
        """Behind a call: another one, the end of the list, the closing marker; behind the list, another list."""
        close = self._syntax.close
        for marker in close:
            if s.startswith(marker, k):
                self.done = not self._syntax.echoed
                self._state = _ECHO
                return k + len(marker)
        c = s[k : k + 1]
        if self._state == _BEHIND:
            m = _ANOTHER.match(s, k) if self._syntax.brackets else None
            if m is not None:
                fits = self._fits(m.group(1), s, m.end(), last=last) if self._syntax.bare else True
                if fits is not False:
                    self._state = _OPEN if fits else _BEHIND
                    return k if fits else -1
            elif not last and _ANOTHER_PART.match(s, k):
                return -1
        elif self._in_list:
            if c and c in ",;":
                self._state = _CALL
                return k + 1
            if c == "]":
                self._in_list = False
                self._state = _BEHIND
                return k + 1
        elif not self._syntax.brackets and c and (c == "," or _NAME.match(s, k)):
            self._state = _CALL
            return k + 1 if c == "," else k
        if not last and any(marker.startswith(s[k:]) for marker in close):
            return -1
        self.done = True
        return i
