"""Calls written as tags: `<function=f><parameter=x>1</parameter></function>` and its relatives.

Values are bare text. A declared string streams as it arrives; anything else leaves when its closing tag is there. A tag
that closes a value counts as one only where what follows it fits, so that a value may speak of tags; and where it is
missing, the next tag ends the value if it can only be one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from ....json_schema.types import declared_types
from ...patterns import WHITE_SPACE
from ...sink import Sink
from ...values.json_spelling import decode, quoted
from ...values.typed_text import repaired_json
from ..call_parts import PartReader
from ..json.arguments import CallArguments
from .elements import element_at, element_syntax
from .syntax import TaggedSyntax
from .value import TagValue, without_entities
from .value_end import CDATA, CDATA_END, MAX_TAG, tag_ends

# Arguments that stand as JSON may stand in a code block.
_FENCE = re.compile(r"`{3}[a-z]{0,16}[ \t]{0,16}\r?\n")
_FENCE_PART = re.compile(r"`{1,2}\Z|`{3}[a-z]{0,16}[ \t]{0,16}\r?\Z")
# The JSON object of all arguments, which may stand in a string or in a list.
_OBJECT = re.compile(r"(?:[\"']|(?P<list>\[[ \t\r\n]{0,16}))?\{")
_OBJECT_PART = re.compile(r"(?:[\"']|\[[ \t\r\n]{0,16})\Z")
_LOOK = 64
# Parameters that no tool declares, and that hold all arguments as one object.
_WRAPPERS = frozenset({"arguments", "args", "input", "parameters", "params", "properties"})

_CALL, _EMPTY, _PARAMETERS, _TAG, _VALUE, _SECTION, _JSON = range(7)


def _declared(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The tool's properties, where its schema says."""
    properties = (schema or {}).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _object(text: str) -> tuple[str, AbstractSet[str]]:
    """The JSON object that `text` is, perhaps after repair, and its keys; none where it is no object."""
    found = repaired_json(text.strip()) if text.lstrip().startswith("{") else ""
    try:
        return found, decode(found).keys() if found else frozenset()
    except (ValueError, RecursionError):
        return "", frozenset()


def _named(syntax: TaggedSyntax, m: re.Match[str], group: str) -> str:
    """The name that a tag's group holds."""
    written = m.group(group).strip()
    return without_entities(written) if syntax.entities else written


class TaggedCalls(PartReader):
    """Reads such calls. See `Body`."""

    __slots__ = (
        "_args", "_cut", "_ends", "_first", "_own", "_parameters", "_repaired", "_rest", "_seen", "_syntax", "_value",
        "_whole", "_wrapper",
    )  # fmt: skip

    def __init__(self, sink: Sink, syntax: TaggedSyntax) -> None:
        super().__init__(sink, _CALL)
        self._own = self._syntax = syntax
        self._ends = tag_ends(syntax)
        self._value = TagValue(syntax)
        self._rest = ""
        self._open_call("")

    def _open_call(self, name: str) -> None:
        self._parameters: Mapping[str, Any] | None = self._sink.schema(name) if name else None
        self._args: CallArguments | None = None
        self._cut = False  # they end in a value
        self._whole = False  # the arguments stand as one JSON object
        self._wrapper = ""  # the parameter at hand, where it may hold them all
        self._first = True
        self._repaired = False
        self._seen: set[str] = set()

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        if self._state == _CALL:
            name, *more = self._rest.split() or ("",)
            if name and not more and not cut and self._syntax.bare_name and self._sink.offered(name):
                self._rest = ""
                self._open_call(name)
                self._state = _EMPTY
                self._sink.start(name)
            return
        # A value whose end has not come may have had more of it.
        within = self._state in (_VALUE, _SECTION, _TAG)
        within = within or (self._args is not None and self._args.is_cut)
        if (cut or within) and self._state != _EMPTY:
            self._sink.args(self._args.release() if self._args is not None else "{" if self._first else "")
            self._sink.end(complete=False, repaired=True, closing=())
            return
        if self._args is not None:
            self._sink.args(self._args.close())
        self._end_call(closed=self._state == _EMPTY or self._syntax.open_end)

    # -- the parts ---------------------------------------------------------------------------------------------------

    def _call(self, s: str, i: int, *, last: bool) -> int:
        syntax = self._syntax
        j = WHITE_SPACE.match(s, i, i + MAX_TAG).end()
        if j == len(s) and not last:
            return -1
        for tag in (syntax.close, *syntax.noise):
            if tag and s.startswith(tag, j):
                self.done = tag == syntax.close
                return j + len(tag)
        m = None if syntax.bare_name and self._sink.committed else syntax.call.match(s, j)
        if m is not None and (m.end() < len(s) or last or not syntax.bare_name):
            name = _named(syntax, m, "name")
            self._open_call(name)
            self._state = _EMPTY if m.groupdict().get("empty") else _PARAMETERS
            self._sink.start(name)
            return m.end()
        if m is None and (end := self._joined(s, j)):
            return end
        rest = s[j : j + MAX_TAG]
        begun = syntax.call_part.fullmatch(rest) is not None
        if last and begun and syntax.bare_name:
            self._rest = rest  # a name alone, perhaps
            return -1
        if not last and len(rest) < MAX_TAG:
            if begun or any(tag.startswith(rest) for tag in (syntax.close, *syntax.noise, *syntax.call_heads)):
                return -1
        self.done = self._sink.committed
        self.failed = not self.done
        if last and self.done and rest and any(tag.startswith(rest) for tag in (syntax.close, *syntax.noise)):
            return len(s)  # half a marker at the end of the text is markup too
        return i

    def _joined(self, s: str, i: int) -> int:
        """Read a tool's name and its first key, written at `i` without a tag between; the index behind them, or 0."""
        if (m := self._syntax.joined.match(s, i)) is None:
            return 0
        for end in range(m.end("joined") - 1, i, -1):
            name, key = s[i:end], s[end : m.end("joined")].strip().removeprefix(self._syntax.reopen[0])
            if self._sink.offered(name) and key in _declared(self._sink.schema(name)):
                self._open_call(name)
                self._sink.start(name)
                self._repaired = True
                self._open_value(key)
                return m.end()
        return 0

    def _parameter(self, s: str, i: int, *, last: bool) -> int:
        """Between the parts of a call: a parameter, the call's end, or its end by something else."""
        syntax = self._syntax
        j = WHITE_SPACE.match(s, i).end()
        if j == len(s):
            return j if j > i else -1
        for close in (syntax.call_close, *syntax.call_ends):
            if s.startswith(close, j):
                self._end_call(close)
                self.done = close == syntax.close
                return j + len(close)
        m = None if self._whole else syntax.parameter.match(s, j)
        if m is not None:
            self._open_value(_named(syntax, m, "key"), m.groupdict().get("kind"))
            # A key that the value's tag ends, or one that closes a value.
            self._repaired = self._repaired or not m.group().endswith(syntax.key_close)
            return m.end()
        if s.startswith(self._ends.behind_call, j):
            self._end_call(closed=False)
            return j
        for tag in syntax.noise:
            if s.startswith(tag, j):
                return j + len(tag)
        key = element_at(s, j, last=last) if s[j] == "<" and not (self._whole or syntax.value_open) else None
        if key and key in _declared(self._parameters) and key not in self._seen:
            self._syntax, self._ends = element_syntax(syntax, key)
            self._repaired = True
            self._open_value(key)
            return j + len(f"<{key}>")
        if s[j] == "`" and self._first and not self._whole:
            if (fence := _FENCE.match(s, j)) is not None:
                return fence.end()
            if not last and _FENCE_PART.match(s, j):
                return -1
        untouched = self._first and not self._whole and not self._repaired
        if untouched and not last and _OBJECT_PART.match(s, j):
            return -1
        if untouched and (m := _OBJECT.match(s, j)):
            j += len(m["list"] or "")
            self._args = CallArguments(s[j], self._ends.closing, self._sink.arguments)
            self._whole = True
            self._first = False
            self._state = _JSON
            return j
        rest = s[j : j + MAX_TAG]
        if not last and len(rest) < MAX_TAG:
            if key == "" or self._ends.half.match(s, j) or syntax.parameter_part.fullmatch(rest):
                return -1
        # Text between the tags of a call is nobody's: it is passed over up to the next tag.
        self._repaired = True
        found = self._ends.tag.search(s, j + 1)
        return len(s) if found is None else found.start()

    def _json(self, s: str, i: int, *, last: bool) -> int:  # noqa: ARG002 - as the other parts
        """Arguments as one JSON object in place of tags."""
        if self._sink.flow is not None:
            return -1  # all is read, and more goes to `args` itself
        args = self._args
        assert args is not None  # noqa: S101 - set with the state
        begin = i
        i, text = args.feed(s, i)
        self._sink.args(text)
        if args.stuck:
            self._sink.args(args.close())
        if args.done:
            self._cut = args.cut
            self._repaired = self._repaired or args.repaired
            self._args = None
            self._state = _PARAMETERS
        elif i == len(s) and args.streams is not None:
            self._sink.flows(args.streams)
        return i if i > begin or args.done else -1

    def _open_value(self, key: str, kind: str | None = None) -> None:
        declared = _declared(self._parameters)
        whole = self._first and key in _WRAPPERS and bool(declared) and key not in declared
        self._value.open(declared_types(self._parameters, key), kind, whole=whole)
        self._state = _TAG if self._syntax.value_open else _VALUE
        self._seen.add(key)
        if whole:
            self._wrapper = key
        else:
            self._name_value(key)

    def _name_value(self, key: str) -> None:
        lead = "{" if self._first else ", "
        self._first = False
        self._sink.args(f'{lead}"{quoted(key)}": ' + ('"' if self._value.streams else ""))

    def _unwrap(self, text: str) -> bool:
        """Whether `text` is an object of declared parameters: then these are the arguments."""
        found, keys = _object(text)
        if not keys or not keys <= _declared(self._parameters).keys():
            return False
        self._first = False
        self._repaired = True
        self._seen.update(keys)
        self._sink.args(found.rstrip()[:-1])
        return True

    def _between_key_and_value(self, s: str, i: int, *, last: bool) -> int:
        j = WHITE_SPACE.match(s, i).end()
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
        self._value.begin_untagged()
        return j

    # -- values ------------------------------------------------------------------------------------------------------

    def _in_value(self, s: str, i: int, *, last: bool) -> int:
        """Inside a value: up to its closing tag, or to what shows that it is missing."""
        n = len(s)
        value = self._value
        start = at = -1 if i == n else value.begin(s, i, last=last)
        if start < 0:
            return -1
        end = self._ends.end
        while True:
            found = end.search(s, k) if (k := s.find("<", at)) >= 0 else None
            if found is None:
                self._sink.args(value.take(s[start:]))
                self._sink.flows(value)
                return n
            k = found.start()
            verdict = self._closes(s, k, start, last=last)
            if verdict == -1:
                at = value.pass_tag(s, k)
                continue
            self._sink.args(value.take(s[start:k]))
            if verdict is None:
                return k if k > i else -1
            if self._state == _VALUE:
                self._end_value(closed=verdict > k)
                self._state = _PARAMETERS
                if self._syntax is not self._own:
                    self._syntax, self._ends = self._own, tag_ends(self._own)
            return verdict

    def _closes(self, s: str, k: int, start: int, *, last: bool) -> int | None:
        """What the `<` at `k` is: an index to go on from if it ends the value, -1 if not, None if it may."""
        syntax = self._syntax
        rest = s[k : k + MAX_TAG]
        if rest.startswith(syntax.value_close):
            return self._ends.fits(s, k + len(syntax.value_close), last=last, nested=self._value.nested > 0)
        if syntax.xml and rest.startswith(CDATA):
            self._state = _SECTION
            return k + len(CDATA)
        if not last and (syntax.value_close.startswith(rest) or (syntax.xml and CDATA.startswith(rest))):
            return None
        # The closing tag may be missing.
        own_line = self._value.own_line(s, k, start)
        for tag in (syntax.call_close, syntax.close, *syntax.tails):
            if not tag:
                continue
            if rest.startswith(tag):
                ends = self._ends.ends_there(s, k + len(tag), last=last, tail=tag in syntax.tails)
                if ends is None:
                    return None
                if ends or (own_line and tag == syntax.call_close and not syntax.close):
                    self._repaired = True
                    return k
            elif tag.startswith(rest) and not last:
                return None
        if not last and any(head.startswith(rest) for head in syntax.parameter_heads):
            return None  # where it opens no parameter, it is one within the value: `nested`
        if own_line or not self._value.lined:
            m = syntax.parameter.match(s, k)
            if m is not None:
                key = _named(syntax, m, "key")
                declared = _declared(self._parameters)
                if key not in self._seen and (key in declared or (own_line and not declared)):
                    self._repaired = True
                    return k
            elif not last and len(rest) < MAX_TAG and syntax.parameter_part.fullmatch(rest):
                return None
        return -1

    def _section(self, s: str, i: int, *, last: bool) -> int:
        """Inside a CDATA section: up to its end."""
        k = s.find(CDATA_END, i)
        keep = k if k >= 0 else len(s)
        if k < 0 and not last:
            keep -= 2 if s.endswith("]]") else s.endswith("]")
        self._sink.args(self._value.take_section(s[i : max(i, keep)], closed=k >= 0))
        if k < 0:
            return keep if keep > i else -1
        self._state = _VALUE
        return k + len(CDATA_END)

    def _end_value(self, *, closed: bool) -> None:
        value = self._value
        self._sink.args(value.end(closed=closed))
        if value.streams:
            return
        if self._wrapper:
            key, self._wrapper = self._wrapper, ""
            if self._unwrap(value.text()):
                return
            self._name_value(key)
        self._sink.args(value.json())

    def _empty(self, s: str, i: int, *, last: bool) -> int:  # noqa: ARG002 - as the other parts
        self._end_call()
        return i

    def _end_call(self, close: str = "", *, closed: bool = True) -> None:
        """close: the tag that ended it. closed: nothing is missing behind its arguments."""
        self._sink.args("" if self._whole else "{}" if self._first else "}")
        self._state = _CALL
        self._args = None
        closing = (close,) if self._repaired else None  # else the arguments need no repair
        self._sink.end(complete=not self._cut, repaired=self._repaired or not closed, closing=closing)

    _parts = (_call, _empty, _parameter, _between_key_and_value, _in_value, _section, _json)
