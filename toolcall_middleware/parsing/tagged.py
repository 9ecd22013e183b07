"""Calls written as tags: `<function=f><parameter=x>1</parameter></function>` and its relatives.

Values are bare text. A declared string streams as it arrives; anything else leaves when its closing tag is there. A tag
that closes a value counts as one only where what follows it fits, so that a value may speak of tags; and where it is
missing, the next tag ends the value if it can only be one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .json_words import decode, quoted
from .lane import Lane, passing
from .named import ArgumentsReader
from .sink import Sink
from .tag_syntax import CDATA, CDATA_END, TaggedSyntax, tag_patterns
from .typed import STRING, declared_types, is_json, json_of, mended

_WS = re.compile(r"[ \t\r\n]*")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
_ENTITY = re.compile("|".join(_ENTITIES))
_ENTITY_PART = re.compile(r"&[a-z]{0,4}\Z")
_MAX_TAG = 512  # characters of a tag, and of white space that is looked through
_LOOK = 64
_OR_NULL = frozenset({"string", "null"})
# Parameters that no tool declares, and that hold all arguments as one object.
_WRAPPERS = frozenset({"arguments", "args", "input", "parameters", "params", "properties"})


_IN_VALUE, _IN_XML = passing("<"), passing("<&")

_CALL, _EMPTY, _PARAMETERS, _TAG, _VALUE, _SECTION, _JSON = range(7)


class TaggedCalls:
    """Reads such calls. See `Body`."""

    tail = ""
    __slots__ = (
        "_args",
        "_begun",
        "_crlf",
        "_first",
        "_held",
        "_lane",
        "_last",
        "_lined",
        "_parameters",
        "_parts",
        "_patterns",
        "_quoted",
        "_repaired",
        "_rest",
        "_seen",
        "_sink",
        "_state",
        "_streaming",
        "_syntax",
        "_types",
        "_whole",
        "_wrapper",
        "done",
        "failed",
    )  # fmt: skip

    def __init__(self, sink: Sink, syntax: TaggedSyntax) -> None:
        self.done = False
        self.failed = False
        self._sink = sink
        self._syntax = syntax
        self._patterns = tag_patterns(syntax)
        self._lane = _IN_XML if syntax.xml else _IN_VALUE
        self._state = _CALL
        self._rest = ""
        self._open_call("")

    def _open_call(self, name: str) -> None:
        self._parameters: Mapping[str, Any] | None = self._sink.schema(name) if name else None
        self._args: ArgumentsReader | None = None
        self._whole = False  # the arguments stand as one JSON object
        self._wrapper = ""  # the parameter at hand, where it may hold them all
        self._first = True
        self._repaired = False
        self._seen: set[str] = set()

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        while not self.done and not self.failed:
            state = self._state
            if state == _VALUE:
                j = self._value(s, i, last=last)
            elif state == _CALL:
                j = self._call(s, i, last=last)
            elif state == _PARAMETERS:
                j = self._parameter(s, i, last=last)
            elif state == _TAG:
                j = self._between_key_and_value(s, i, last=last)
            elif state == _SECTION:
                j = self._section(s, i, last=last)
            elif state == _JSON:
                j = self._json(s, i)
            else:
                self._end_call()
                return i
            if j < 0 or (j == i and state == self._state and not self._sink.changed):
                return i
            i = j
            if self._sink.changed:
                return i
        return i

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        if self._state == _CALL:
            name = self._rest.strip()
            if name and not cut and self._syntax.bare_name and self._sink.offered(name):
                self._rest = ""
                self._open_call(name)
                self._state = _EMPTY
                self._sink.start(name)
            return
        if cut and self._state != _EMPTY:
            self._sink.args(self._args.release() if self._args is not None else "{" if self._first else "")
            self._sink.end(complete=False, repaired=True)
            return
        if self._state in (_VALUE, _SECTION, _TAG):
            self._end_value(closed=False)
        elif self._args is not None:
            self._sink.args(self._args.close())
        self._repaired = self._repaired or self._state != _EMPTY
        self._end_call()

    # -- the parts: each returns the index behind what it read, or -1 to wait for more -----------------------------

    def _call(self, s: str, i: int, *, last: bool) -> int:
        syntax = self._syntax
        j = _WS.match(s, i, i + _MAX_TAG).end()  # type: ignore[union-attr]
        if j == len(s) and not last:
            return -1
        for tag in (syntax.close, *syntax.noise):
            if tag and s.startswith(tag, j):
                self.done = tag == syntax.close
                return j + len(tag)
        m = None if syntax.bare_name and self._sink.committed else syntax.call.match(s, j)
        if m is not None and (m.end() < len(s) or last or not syntax.bare_name):
            name = self._named(m, "name")
            self._open_call(name)
            self._state = _EMPTY if m.groupdict().get("empty") else _PARAMETERS
            self._sink.start(name)
            return m.end()
        rest = s[j : j + _MAX_TAG]
        begun = syntax.call_part.fullmatch(rest) is not None
        if last and begun and syntax.bare_name:
            self._rest = rest  # a name alone, perhaps
            return -1
        if not last and len(rest) < _MAX_TAG:
            if begun or any(tag.startswith(rest) for tag in (syntax.close, *syntax.noise, *syntax.call_heads)):
                return -1
        self.done = self._sink.committed
        self.failed = not self.done
        if last and self.done and rest and any(tag.startswith(rest) for tag in (syntax.close, *syntax.noise)):
            return len(s)  # half a marker at the end of the text is markup too
        return i

    def _parameter(self, s: str, i: int, *, last: bool) -> int:
        """Between the parts of a call: a parameter, the call's end, or its end by something else."""
        syntax = self._syntax
        j = _WS.match(s, i).end()  # type: ignore[union-attr]
        if j == len(s):
            return j if j > i else -1
        if s.startswith(syntax.call_close, j):
            self._end_call()
            self.done = syntax.call_close == syntax.close
            return j + len(syntax.call_close)
        m = None if self._whole else syntax.parameter.match(s, j)
        if m is not None:
            self._open_value(m)
            return m.end()
        if s.startswith(self._patterns.behind_call, j):
            self._repaired = True
            self._end_call()
            return j
        for tag in syntax.noise:
            if s.startswith(tag, j):
                return j + len(tag)
        if s[j] == "{" and self._first and not self._whole and not self._repaired:
            self._args = ArgumentsReader("{")
            self._whole = True
            self._first = False
            self._state = _JSON
            return j
        rest = s[j : j + _MAX_TAG]
        if not last and len(rest) < _MAX_TAG:
            if self._patterns.half.match(s, j) or syntax.parameter_part.fullmatch(rest):
                return -1
        # Text between the tags of a call is nobody's: it is passed over up to the next tag.
        self._repaired = True
        found = self._patterns.tag.search(s, j + 1)
        return len(s) if found is None else found.start()

    def _json(self, s: str, i: int) -> int:
        """Arguments as one JSON object in place of tags."""
        args = self._args
        assert args is not None  # noqa: S101 - set with the state
        i, text = args.feed(s, i)
        self._sink.args(text)
        if args.stuck:
            self._sink.args(args.close())
        if args.done:
            self._repaired = self._repaired or args.repaired
            self._args = None
            self._state = _PARAMETERS
        return i

    def _named(self, m: re.Match[str], group: str) -> str:
        written = m.group(group).strip()
        return _ENTITY.sub(lambda found: _ENTITIES[found.group()], written) if self._syntax.entities else written

    def _open_value(self, m: re.Match[str]) -> None:
        syntax = self._syntax
        key = self._named(m, "key")
        self._types = declared_types(self._parameters, key)
        kind = m.groupdict().get("kind")
        # Said to be JSON where a string is declared: its quotes are markup.
        self._quoted = kind == "false" and self._types == STRING
        if kind in {"true", "string"}:
            self._types = STRING
        self._streaming = self._types == STRING and not self._quoted
        self._parts: list[str] = []
        self._held = ""  # what is not known to belong to the value: a newline at its end, half an entity
        self._begun = False
        self._lined = False  # a newline has opened the value
        self._crlf = False  # ... of two characters
        self._state = _TAG if syntax.value_open else _VALUE
        self._seen.add(key)
        if self._first and key in _WRAPPERS and self._declared and key not in self._declared:
            self._wrapper = key
            self._streaming = False
            return
        self._name_value(key)

    @property
    def _declared(self) -> Mapping[str, Any]:
        """The tool's properties, where its schema says."""
        properties = (self._parameters or {}).get("properties")
        return properties if isinstance(properties, Mapping) else {}

    def _name_value(self, key: str) -> None:
        lead = "{" if self._first else ", "
        self._first = False
        self._sink.args(f'{lead}"{quoted(key)}": ' + ('"' if self._streaming else ""))

    def _unwrap(self, text: str) -> bool:
        """Whether `text` is an object of declared parameters: then these are the arguments."""
        found = mended(text.strip()) if text.lstrip().startswith("{") else ""
        try:
            keys = decode(found).keys() if found else ()
        except (ValueError, RecursionError):
            return False
        if not keys or not keys <= self._declared.keys():
            return False
        self._first = False
        self._repaired = True
        self._seen.update(keys)
        self._sink.args(found.rstrip()[:-1])
        return True

    def _between_key_and_value(self, s: str, i: int, *, last: bool) -> int:
        j = _WS.match(s, i).end()  # type: ignore[union-attr]
        if i < j == len(s):
            return j
        syntax = self._syntax
        if s.startswith(syntax.value_open, j):
            self._state = _VALUE
            return j + len(syntax.value_open)
        if s.startswith(syntax.key_close, j):
            self._repaired = True
            return j + len(syntax.key_close)
        rest = s[j : j + _LOOK]
        if not last and any(tag.startswith(rest) for tag in (syntax.value_open, syntax.key_close)):
            return -1
        self._repaired = True
        self._state = _VALUE
        return j

    # -- a value that goes on: see `ArgumentsReader` -----------------------------------------------------------------

    @property
    def lane(self) -> Lane | None:
        """What goes through as it is."""
        return self._lane if self._streaming and not self._held else None

    def run(self, text: str) -> str | None:
        """What leaves for more of the value; None where a tag may stand in it."""
        return self._take(text) if "<" not in text else None

    def leave(self, text: str) -> tuple[str, str]:
        """Where a tag may stand, the value may end: `step` reads it."""
        return "", text

    def went_by(self, text: str) -> None:
        """`text` left by the lane."""
        self._last = text[-1]

    # -- values ------------------------------------------------------------------------------------------------------

    def _value(self, s: str, i: int, *, last: bool) -> int:
        """Inside a value: up to its closing tag, or to what shows that it is missing."""
        n = len(s)
        start = i
        if not self._begun:
            if i == n or (s[i] == "\r" and i + 1 == n and not last):
                return -1
            self._begun = True
            if self._syntax.newlines:
                self._crlf = s.startswith("\r\n", i)
                start += 2 if self._crlf else s[i] == "\n"
                self._lined = start > i
            self._last = "\n" if self._lined else ""
        at = start
        end = self._patterns.end
        while True:
            found = end.search(s, k) if (k := s.find("<", at)) >= 0 else None
            if found is None:
                self._put(self._take(s[start:]))
                self._sink.flows(self)
                return n
            k = found.start()
            verdict = self._closes(s, k, last=last)
            if verdict == -1:
                at = k + 1
                continue
            self._put(self._take(s[start:k]))
            if verdict is None:
                return k if k > i else -1
            if self._state == _VALUE:
                self._end_value(closed=verdict > k)
                self._state = _PARAMETERS
            return verdict

    def _closes(self, s: str, k: int, *, last: bool) -> int | None:
        """What the `<` at `k` is: an index to go on from if it ends the value, -1 if not, None if it may."""
        syntax = self._syntax
        rest = s[k : k + _MAX_TAG]
        if rest.startswith(syntax.value_close):
            return self._fits(s, k + len(syntax.value_close), last=last)
        if syntax.xml and rest.startswith(CDATA):
            self._state = _SECTION
            return k + len(CDATA)
        if not last and (syntax.value_close.startswith(rest) or (syntax.xml and CDATA.startswith(rest))):
            return None
        # The closing tag may be missing.
        own_line = (s[k - 1] if k else self._last) == "\n"
        for tag in (syntax.call_close, syntax.close, *syntax.tails):
            if not tag:
                continue
            if rest.startswith(tag):
                ends = self._ends_there(s, k + len(tag), last=last, tail=tag in syntax.tails)
                if ends is None:
                    return None
                if ends or (own_line and tag == syntax.call_close and not syntax.close):
                    self._repaired = True
                    return k
            elif tag.startswith(rest) and not last:
                return None
        if own_line or not self._lined:
            m = syntax.parameter.match(s, k)
            if m is not None:
                key = self._named(m, "key")
                declared = self._declared
                if key not in self._seen and (key in declared or (own_line and not declared)):
                    self._repaired = True
                    return k
            elif not last and len(rest) < _MAX_TAG:
                if any(head.startswith(rest) for head in syntax.parameter_heads) or syntax.parameter_part.fullmatch(
                    rest
                ):
                    return None
        return -1

    def _fits(self, s: str, k: int, *, last: bool) -> int | None:
        """Whether what stands at `k` can follow a value's closing tag: `k`, -1 or None as above."""
        syntax = self._syntax
        j = _WS.match(s, k, k + _MAX_TAG).end()  # type: ignore[union-attr]
        if j == len(s):
            return k if last else None
        if j == k + _MAX_TAG:
            return k
        if syntax.close and s.startswith(syntax.call_close, j) and syntax.call_close != syntax.close:
            # In a value that explains this very syntax the value's closing tag comes once more.
            j = _WS.match(s, j + len(syntax.call_close), k + _MAX_TAG).end()  # type: ignore[union-attr]
            rest = s[j : j + _LOOK]
            if not last and syntax.value_close.startswith(rest):
                return None
            return -1 if rest.startswith(syntax.value_close) else k
        if s.startswith(self._patterns.behind_value, j):
            return k
        return None if not last and self._patterns.half.match(s, j) else -1

    def _ends_there(self, s: str, k: int, *, last: bool, tail: bool) -> bool | None:
        """Whether nothing stands at `k` but what can follow a call (behind the turn's end: nothing at all)."""
        j = _WS.match(s, k, k + _MAX_TAG).end()  # type: ignore[union-attr]
        if j == len(s):
            return True if last else None
        patterns = self._patterns
        if s.startswith(self._syntax.tails if tail else patterns.over, j):
            return True
        half = patterns.half_tail if tail else patterns.half_behind
        return None if not last and half.match(s, j) else False

    def _section(self, s: str, i: int, *, last: bool) -> int:
        """Inside a CDATA section: up to its end."""
        k = s.find(CDATA_END, i)
        keep = k
        if k < 0:
            keep = len(s)
            if not last:
                keep -= 2 if s.endswith("]]") else s.endswith("]")
        self._held, held = "", self._held
        self._lined = False
        self._put(self._say(held + s[i : max(i, keep)]))
        if k < 0:
            return keep if keep > i else -1
        self._state = _VALUE
        self._lined = self._crlf = self._syntax.newlines
        return k + len(CDATA_END)

    def _put(self, text: str) -> None:
        if text:
            self._sink.args(text)

    def _take(self, text: str) -> str:
        """More of the value; returns what leaves. A newline at its end waits: it may be markup."""
        self._last = text[-1:] or self._last
        text = self._held + text
        self._held = ""
        if self._syntax.xml and "&" in text:
            m = _ENTITY_PART.search(text, max(0, len(text) - 5))
            self._held = text[m.start() :] if m else ""
            text = _ENTITY.sub(lambda found: _ENTITIES[found.group()], text[: len(text) - len(self._held)])
        if not self._held:
            self._held = "\r\n" if text.endswith("\r\n") else text[-1:] if text.endswith(("\n", "\r")) else ""
            if self._held:
                text = text[: -len(self._held)]
        return self._say(text)

    def _say(self, text: str) -> str:
        """What leaves for `text` of the value."""
        if self._streaming:
            return quoted(text)
        if text:
            self._parts.append(text)
            if self._types == _OR_NULL and not self._quoted and not self._wrapper:
                # A string as soon as it cannot be null.
                value = "".join(self._parts)
                if len(value) > _LOOK or not "null".startswith(value.strip()):
                    self._streaming = True
                    return '"' + quoted(value)
        return ""

    def _end_value(self, *, closed: bool) -> None:
        held, self._held = self._held, ""
        if held not in ("\n", "\r\n") or (closed and not self._lined):
            self._put(self._say(held))
        elif held == "\r\n" and closed and not self._crlf:
            self._put(self._say("\r"))  # the line that opened the value ended without one
        if self._streaming:
            self._sink.args('"')
            return
        text = "".join(self._parts)
        self._parts = []
        if self._wrapper:
            key, self._wrapper = self._wrapper, ""
            if self._unwrap(text):
                return
            self._name_value(key)
        self._sink.args(text.strip() if self._quoted and is_json(text, str) else json_of(text, self._types))

    def _end_call(self) -> None:
        self._sink.args("" if self._whole else "{}" if self._first else "}")
        self._state = _CALL
        self._args = None
        self._sink.end(repaired=self._repaired)
