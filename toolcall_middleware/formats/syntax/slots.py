r"""Formats whose calls are tags with slots, each declared once as it is written.

    QWEN3_CODER = Slots(
        call="<tool_call>\n<function={name}>\n{slots}</function>\n</tool_call>",
        slot="<parameter={key}>\n{value}\n</parameter>\n",
    )

The reader's patterns, the writer, the constraint's trigger and tag, and the markers that text must not contain are
derived from that. White space in a layout is written as it is and optional when read; `[…]` is not written and
optional when read.

A string is written as it is, anything else as JSON; the reader types it by the tool's schema. Without a schema (and but
for DSML, which names the type) a string that reads as JSON comes back as what it reads as: the syntax cannot tell. What
the syntax has no way to write is a value that reads as the markup around it (a closing tag that the next tag follows, a
parameter's tag at the start of a line), and a key with a quote or a line break. What looks like such a value is read
back; a turn with a call that does not come back is written in JSON.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from ...model import ToolCall
from ...parsing.calls.slot_layout import Layout
from ...parsing.calls.slots import read_slots
from ...parsing.cursor import Cursor, Make, NotACall, Steps
from ...parsing.text.grammar import Opener, Where
from .. import markup
from .shape import TAG, CannotWrite, Shape, fork, opener, shared

_WS = r"[ \t\r\n]{0,64}"
_NAME = r"[^\s<>{}\[\]\"'`]{1,256}"
_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STEM = re.compile(r"</?[^\s=>{]*")
_ENTITY = re.compile("&(?:lt|gt|amp|quot|apos);")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
# `=f`, ` f`, `="f"`, ` name="f"`. The opening quote may be missing where the closing one is there.
_ASSIGNED = r"(?:=| name[ ]?=|[ ])[ ]?(?P<quote>[\"']?)(?P<{}>[^>\n]{{1,256}}?)(?P=quote)[\"']?[ ]?"
_QUOTED = r"[ ]?=[ ]?(?P<quote_{0}>[\"'])?(?P<{0}>[^\"'>\n]{{1,256}}?)"
_UNQUOTED = r"(?(quote_{0})[\"'])[ ]?"
ATTRIBUTE = r"[^\"'>\n]{1,256}"
"""Pattern of a key in an attribute."""
_END = r"(?:>|(?=\r?\n))"  # the bracket may be missing at the end of a line
_STRING = r"(?:[ ]+string[ ]?=[ ]?[\"'](?P<kind>\w{1,8})[\"'][ ]?)?"  # says whether the value is a string


@dataclass(frozen=True, kw_only=True)
class Slots(Shape):
    """How a family writes calls. Holes: `{name}`, `{number}` (from 1) and `{slots}` in `call`; `{key}`, `{value}`,
    `{kind}` (`true` for a string) and `{type}` (JSON's name of the type) in `slot`.
    """

    call: str
    slot: str
    open: str = ""
    close: str = ""
    between: str = "\n"
    exact: bool | None = None
    """Line breaks at a value's ends belong to it. None: where the slot says the type."""
    bare: bool = False
    """Other families share the marker before `{name}`: the reader begins at the name."""
    name_in_slot: bool = False
    """A call's name may be in the tag of a slot, which the call's slots follow."""
    prefix: str = ""
    """Part of each tag's name that a slot's tag may lack."""
    noise: tuple[str, ...] = ()
    """Markers between the parts that have no meaning."""
    alias: str = ""
    """Another spelling of how a call's tag begins."""
    mark: str = ""
    """All tags are tokens of their own that begin with this: a value is exactly what is between two of them."""
    stray: str = ""
    """A special token that models write by mistake after a name."""
    free: bool = False
    """In the tag of a tool's name any tag is a slot; else only those of declared parameters."""
    xml: bool = False
    """CDATA sections and entities in values mean what they mean in XML."""
    entities: bool = False
    """Entities in names and keys mean what they mean in XML."""
    names: str = _NAME
    """Pattern of the names that can be written."""
    keys: str = ""
    """Pattern of the keys that can be written. Empty: what the slot's tag can hold."""
    style: str = ""
    """xgrammar's name for how slots are written; empty: constrained decoding knows none."""

    # -- parts ---------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def parts(self) -> _Parts:
        return _Parts(self)

    # -- what is derived -----------------------------------------------------------------------------------------------

    def __call__(self, c: Cursor) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_slots(c, self.layout(markup.turn_markers()))

    @functools.lru_cache(maxsize=256)  # noqa: B019 - declarations live as long as the program
    def layout(self, tails: tuple[str, ...] = ()) -> Layout:
        """What the reader needs."""
        p = self.parts
        slot, slot_heads = p.slot_patterns()
        call, call_heads = p.call_patterns()
        return Layout(
            call=re.compile(call),
            call_heads=call_heads,
            slot=re.compile(slot),
            slot_heads=slot_heads,
            joined=re.compile(p.joined),
            key_close=p.key_close,
            value_open=p.value_open,
            value_close=p.value_close,
            call_close=p.call_close,
            close=p.close,
            prefix=self.prefix,
            noise=self.noise,
            reopen=(p.wrapper,) if p.wrapper else (),
            tails=tails,
            newlines=not p.exact,
            bare_name=self.bare,
            free=self.free,
            xml=self.xml,
            entities=self.entities,
        )

    def written(self, call: ToolCall, number: int, /) -> tuple[str, bool]:
        """One call. A value that holds a part of the markup may be read as something else."""
        p = self.parts
        arguments = {key: bytes(raw) for key, raw in _ARGUMENTS.decode(call.arguments.strip() or "{}").items()}
        values = {key: _text(raw) for key, raw in arguments.items()}
        may_name, may_key = self._writable
        if not may_name.fullmatch(call.name) or any(key != key.strip() or not may_key.fullmatch(key) for key in values):
            raise CannotWrite
        head = p.value_head.removesuffix("\n" if p.lines else "")
        parts = [p.before.replace("{number}", str(number)).replace("{name}", call.name)]
        for key, value in values.items():
            kind = "true" if arguments[key].startswith(b'"') else "false"
            opening = head.replace("{kind}", kind).replace("{type}", _type(arguments[key])).replace("{key}", key)
            parts.append(f"{opening}{self._value(value)}{p.value_close.replace('{key}', key)}{p.gap}")
        written = "".join([*parts, p.call_close.replace("{name}", call.name), p.tail])
        return written, any(map(self._suspicious.search, values.values()))

    def _value(self, text: str) -> str:
        """The value with the line breaks and the entities that its reader takes away again."""
        if self.xml and (_ENTITY.search(text) or self._suspicious.search(text) or "<![CDATA[" in text):
            text = text.replace("&", "&amp;").replace("<", "&lt;")
        if self.parts.exact or not (self.parts.lines or text.startswith(("\n", "\r\n"))):
            return text
        return f"\n{text}\n"

    @functools.cached_property
    def _writable(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """The names and the keys that can be written."""
        return re.compile(self.names), re.compile(self.keys or self.parts.key)

    @functools.cached_property
    def _suspicious(self) -> re.Pattern[str]:
        """What a value can hold that the reader may take for markup. Every family's turn markers are among it."""
        p = self.parts
        own = (self.close, p.before, p.call_close, p.tail, p.value_head, p.value_close, self.mark)
        prefixed = "<parameter" if self.prefix else ""
        known = {stem for tag in (*own, prefixed) for stem in _STEM.findall(tag)} | set(markup.turn_markers())
        return re.compile("|".join(map(re.escape, sorted(known))))

    @property
    def marker(self) -> str:
        """What opens the calls."""
        found = TAG.match(self.open or self.call)
        return found.group() if found else ""

    @property
    def structural_tag(self) -> tuple[str, str, str] | None:
        """What precedes a call's slots, what follows them, and their style. Each call has its own markers, so all have
        the number 1.
        """
        if not self.style:
            return None
        p = self.parts
        own_line = "\n" if self.style == "qwen_xml" else ""  # the style writes values inline or on lines of their own
        return (
            (self.open + p.before).replace("{number}", "1"),
            own_line + p.call_close + p.tail + self.close,
            self.style,
        )

    @property
    def closers(self) -> tuple[str, ...]:
        """Markers that are no content after a call."""
        found = tuple(TAG.findall(self.close)) or tuple(TAG.findall(self.parts.tail))[-1:]
        return found or tuple(tag for tag in (self.parts.call_close,) if "{name}" not in tag)

    def opener(self, *others: tuple[str, Make]) -> Opener:
        """What begins the calls. others: patterns of what else may follow that marker, and what reads it."""
        return opener(self.trigger, fork(*others, ("", self)) if others else self)

    @property
    def openers(self) -> tuple[Opener, ...]:
        """The first tag."""
        return (self.opener(),)


class _Parts:
    """A declaration, taken apart."""

    def __init__(self, d: Slots) -> None:
        self.d = d
        before, after = d.call.split("{slots}")
        self.before = _OPTIONAL.sub("", before)
        tags = TAG.findall(after)
        self.call_close = after[: after.index(tags[0]) + len(tags[0])]
        self.tail = after[len(self.call_close) :]
        at = before.index("{name}")
        self.head_at = before.rfind("<", 0, at)
        self.wrapper = before[: self.head_at].strip() if not d.open else ""
        self.head, self.rest = before[self.head_at : at], before[at + len("{name}") :].strip()
        self.close = (d.close or self.tail or (self.call_close if d.bare else "")).strip()
        if d.bare:
            self.wrapper = self.head
        value_head, behind = d.slot.split("{value}")
        self.lines = value_head.endswith("\n") and behind.startswith("\n")
        self.value_head = _OPTIONAL.sub("", value_head)
        self.value_close = TAG.findall(behind)[0]
        self.gap = behind[behind.index(self.value_close) + len(self.value_close) :]
        at = value_head.index("{key}")
        self.slot_head, self.slot_rest = value_head[:at], value_head[at + len("{key}") :].strip()
        typed = "{kind}" in self.value_head or "{type}" in self.value_head
        self.exact = (typed or bool(d.mark)) if d.exact is None else d.exact
        tags = TAG.findall(self.value_head[self.value_head.index("{key}") :])
        pair = self.slot_head.endswith(">") and len(tags) == 2
        self.key_close: str = tags[0] if pair else ""
        self.value_open: str = tags[1] if pair else ""
        self.attribute = '="' in self.slot_head

    @property
    def key(self) -> str:
        """Pattern of what a key may consist of."""
        if self.slot_head.endswith(">"):
            return r"[^<]{1,256}" if self.value_open else r"[^<\n]{1,256}"
        if not self.attribute:
            return r"(?![\"'])[^>\n]{1,256}(?<![\"'])"  # quotes around it are markup
        return r"[^\"&\n]{1,256}" if "|>" in self.slot_head else ATTRIBUTE

    @property
    def joined(self) -> str:
        if not (self.d.bare and self.key_close):
            return "(?!)"
        return rf"(?P<joined>{_NAME}(?:{self._joint}{_NAME})?){re.escape(self.key_close)}"

    @property
    def _joint(self) -> str:
        """Pattern between a name and a first key whose opening tag is missing: white space or a call's tag."""
        return rf"(?:[ \t\r\n]{{1,64}}|{re.escape(self.head)})"

    def call_patterns(self) -> tuple[str, tuple[str, ...]]:
        """A call's opening tag and its literal heads."""
        head, d = self.head, self.d
        if head.endswith(">"):
            return self._name_between()
        if "|>" in head:
            return _in_token(head, self.rest, "name", d.alias)
        if head.endswith('"'):
            stray, (tag, of) = d.stray, _tag_of(head)
            return attribute(re.escape(tag), "name", "(?P<empty>/)?", stray=stray, of=of), heads(tag, of)
        tag, json = re.escape(head[:-1]), r"(?:>|[=(,]?[ ]?(?=\[?\{))"  # Llama 3 writes JSON there, without the bracket
        spaced = (head, f"{head[:-1]} ")
        if not d.name_in_slot:
            return f"{tag}{_ASSIGNED.format('name')}{json}", spaced
        odd = self.slot_head[:-1]
        whole = (
            rf"(?:{tag}|(?P<odd>{re.escape(odd)})){_ASSIGNED.format('name')}"
            rf"(?(odd)>(?={_WS}(?:{re.escape(odd)}[= ]|{re.escape(self.call_close)}))|{json})"
        )
        return whole, spaced

    def _name_between(self) -> tuple[str, tuple[str, ...]]:
        slot, end = re.escape(self.slot_head), re.escape(self.call_close)
        separators = [re.escape(tag) for tag in TAG.findall(self.rest)]
        if self.d.mark:
            separators.append(r"\n")  # between tokens, the end of the line ends the name
        may = "".join(f"(?:{tag}{_WS})?" for tag in separators)
        head = r"(?:function[ \t]{0,8}\r?\n)?" if self.d.bare else f"{re.escape(self.head)}{_WS}"  # Step-Audio 2
        more = f"|{re.escape(self.value_close)}" if self.d.bare else ""
        follows = f"(?={slot}{more}|{end}|\\{{)"
        follows = may + follows if self.d.bare else f"(?:{'|'.join([*separators, follows])})"
        return rf"{head}(?P<name>{_NAME}){_WS}{follows}", () if self.d.bare else (self.head,)

    def slot_patterns(self) -> tuple[str, tuple[str, ...]]:
        """The same of a slot."""
        head = self.slot_head
        if head.endswith(">"):
            return self._key_between()
        if "|>" in head:
            return _in_token(head, self.slot_rest, "key")
        if head.endswith('"'):
            (tag, of), prefix = _tag_of(head), self.d.prefix
            plain = tag.removeprefix(prefix)
            both = (*heads(tag, of), *(heads(plain, of) if prefix else ()))
            mark = f"(?:{re.escape(prefix)})?" if prefix else ""
            return attribute(mark + re.escape(plain), "key", _STRING, of=of), both
        spaced = (head, f"{head[:-1]} ")
        return f"{re.escape(head[:-1])}{_ASSIGNED.format('key')}{_STRING}{_END}", spaced

    def _key_between(self) -> tuple[str, tuple[str, ...]]:
        key = f"(?:{re.escape(self.slot_head)}{_WS})" + "{1,4}"
        if not self.value_open:
            return f"{key}(?P<key>[^<\\n]{{1,256}}){re.escape(self.slot_rest)}", (self.slot_head,)
        tags = (self.slot_head, self.key_close, self.value_open, self.value_close, self.call_close)
        char = f"(?:[^<]|(?!{'|'.join(map(re.escape, tags))})<)"  # of a key
        value = re.escape(self.value_open)
        # The key's own closing tag may be that of a value, or missing before the value.
        end = f"(?:{re.escape(self.key_close)}|{re.escape(self.value_close)}|(?={value}))"
        kind = ""
        for part in _OPTIONAL.findall(self.slot_rest):
            kind = "(?:" + re.escape(part).replace(re.escape("{kind}"), r"(?P<kind>\w{1,12})") + f"{_WS})?"
            kind = f"{_WS}{kind}(?={value})"
        return f"{key}(?P<key>{char}{{1,256}}?){end}{kind}", (self.slot_head,)


_TYPES = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


def _type(raw: bytes) -> str:
    return _TYPES.get(chr(raw[0]), "number")


def _text(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()


def _tag_of(head: str) -> tuple[str, str]:
    """`<invoke name="`: the tag's name and the attribute's."""
    tag, _, of = head[1:].rpartition(" ")
    return tag, of.partition("=")[0]


def heads(tag: str, of: str = "name") -> tuple[str, ...]:
    """How a tag begins. The space gets lost where special tokens are joined; some tokenizers write it as `Ġ`."""
    return tuple(f"<{tag}{space}{of}" for space in (" ", "", "Ġ"))


def attribute(tag: str, group: str, more: str = "", *, stray: str = "", of: str = "name") -> str:
    """A pattern of `<tag name="…">`, what the attribute `of` holds in the group `group`. stray: see `Slots.stray`."""
    end = f"{_UNQUOTED.format(group)}{more}>"
    if stray:
        strays = f"(?:{re.escape(stray)}){{1,4}}"
        end = rf"(?:(?:{_UNQUOTED.format(group)}|{strays}[\"']?[ ]?){more}>|{strays}(?=\n{{0,8}}<[/a-z]))"
    return f"<{tag}[ Ġ]?{of}{_QUOTED.format(group)}{end}"


def _in_token(head: str, rest: str, group: str, alias: str = "") -> tuple[str, tuple[str, ...]]:
    """A hole in an attribute of `<|open|>call tool="…" index="…"<|sep|>`, among other attributes in any order."""
    stem, attribute = head.rsplit(" ", 1)
    stems = (stem, alias) if alias else (stem,)
    begin = f"(?:{'|'.join(map(re.escape, stems))}) "
    before, kind = "[^<>\\n]{0,100}?", ""
    if "{type}" in rest:
        before, kind = r'(?:type="\w{1,12}" )?', r'(?: type="(?P<kind>\w{1,12})")?'
    hole = rf'{before}{re.escape(attribute)}(?P<{group}>[^"\n]{{1,256}})"{kind}[^<>\n]{{0,100}}'
    return begin + hole + re.escape(TAG.findall(rest)[-1]), tuple(f"{s} " for s in stems)


def slot_calls(**parts: Any) -> Make:
    """A reader of such calls whose syntax no `Slots` states; `parts` are Layout's."""

    @functools.lru_cache(maxsize=2)
    def layout(tails: tuple[str, ...]) -> Layout:
        return Layout(tails=tails, **parts)

    return lambda c: read_slots(c, layout(markup.turn_markers()))


# -- `<function=f>` ----------------------------------------------------------------------------------------------------
# Qwen3-Coder's calls, which other models write too, and calls in the tag of the tool's name: in it a slot may be
# Qwen's, or JSON be in place of all slots.
#
#     <bash>
#     <command>ls</command>
#     </bash>

NAME = r"\w[\w.\-]{0,63}"
"""Pattern of a name in such a tag."""

_CALL = "<tool_call>\n<function={name}>\n{slots}</function>\n</tool_call>"
_SLOT = "<parameter={key}>\n{value}\n</parameter>\n"
_NOISE = ("</function_invocation>",)  # Qwen 3.6, in addition to the others
FUNCTIONS = Slots(call=_CALL, slot=_SLOT, name_in_slot=True, noise=_NOISE, style="qwen_xml")


def tool_tag(read: Slots) -> Opener:
    """The tag of an offered tool, first on its line; `read` reads the call."""
    return Opener(
        pattern=rf"<(?P<tool>{NAME})>",
        where=Where.LINE,
        named=True,
        consume=False,
        body=read,
    )


TOOL_TAG = tool_tag(FUNCTIONS)
FREE_TOOL_TAG = tool_tag(Slots(call=_CALL, slot=_SLOT, free=True))
"""The same with parameters that the tool does not declare."""


# -- `<invoke name="f">` -----------------------------------------------------------------------------------------------
# `<invoke name="f">` without its family's wrapper and marks, or in a plain one. MiniMax and DeepSeek slip into it, and
# so do models that were shown Claude's transcripts. Some gateways take the marks out.

INVOKE, NO_INVOKE = r"<i", r"<(?!i)"
"""Patterns of how it begins, and of how any other tag in the same wrapper does."""

_INVOKE = "<invoke name="
_INVOKED = r"[^\s<>\"']"


def invoke(wrapper: str) -> Slots:
    """`<invoke name="f">` in `<wrapper>`, without a line of its own for each tag."""
    return Slots(
        open=f"<{wrapper}>",
        call='<invoke name="{name}">{slots}</invoke>',
        slot='<parameter name="{key}">{value}</parameter>',
        close=f"</{wrapper}>",
    )


_bare = invoke("tool_calls")


def _if_offered(c: Cursor) -> Steps[None]:
    """Without a marker it is a call only of a tool that is offered."""
    if not c.sink.offered(c.opening[len(_INVOKE) + 1 : -1]):
        raise NotACall
    yield from _bare(c)


BARE_INVOKE: tuple[Opener, ...] = (
    Opener(
        pattern=rf"{_INVOKE}(?:\"{_INVOKED}{{1,256}}\"|'{_INVOKED}{{1,256}}')",
        where=Where.LINE,
        consume=False,
        body=_if_offered,
    ),
    *(shared(f"<{wrapper}>", invoke(wrapper), INVOKE) for wrapper in ("function_calls", "tool_calls", "tool_call")),
)
