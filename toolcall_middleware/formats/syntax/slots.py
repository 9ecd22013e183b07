"""Formats whose calls are tags with slots, each declared once as it is written: see `SlotTags`.

The reader's patterns, the writer, the constraint's trigger and tag, and the markers that text must not contain are
derived from the declaration.

A string is written as it is, anything else as JSON; the reader types it by the tool's schema. Without a schema (and but
for DSML, which names the type) a string that reads as JSON comes back as what it reads as: the syntax cannot tell. What
the syntax has no way to write is a value that reads as the markup around it (a closing tag that the next tag follows, a
parameter's tag at the start of a line), and a key with a quote or a line break. What looks like such a value is read
back; a turn with a call that does not come back is written in JSON.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ...model import ToolCall
from ...parsing.calls.slot_layout import CDATA, ENTITY, NAME, Layout, SlotTags
from ...parsing.calls.slots import read_slots
from ...parsing.cursor import Cursor, Make, NotACall, Steps
from ...parsing.patterns import TAG
from ...parsing.text.grammar import Opener, Where
from .. import markup
from .shape import CannotWrite, Shape, fork, opener, shared, type_of

_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STEM = re.compile(r"</?[^\s=>{]*")


@dataclass(frozen=True, kw_only=True)
class Slots(SlotTags, Shape):
    """How a family writes calls."""

    between: str = "\n"
    names: str = NAME
    """Pattern of the names that can be written."""
    keys: str = ""
    """Pattern of the keys that can be written. Empty: what the slot's tag can hold."""
    style: str = ""
    """xgrammar's name for how slots are written; empty: constrained decoding knows none."""

    def __call__(self, c: Cursor) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_slots(c, self.layout(markup.turn_markers()))

    @functools.lru_cache(maxsize=256)  # noqa: B019 - declarations live as long as the program
    def layout(self, tails: tuple[str, ...] = ()) -> Layout:
        """What the reader needs, and the parts of the declaration."""
        return Layout(self, tails)

    def written(self, call: ToolCall, number: int, /) -> tuple[str, bool]:
        """One call. A value that holds a part of the markup may be read as something else."""
        arguments = {key: bytes(raw) for key, raw in _ARGUMENTS.decode(call.arguments.strip() or "{}").items()}
        values = {key: _text(raw) for key, raw in arguments.items()}
        may_name, may_key = self._writable
        if not may_name.fullmatch(call.name) or any(key != key.strip() or not may_key.fullmatch(key) for key in values):
            raise CannotWrite
        slots = [self._slot(key, values[key], type_of(raw)) for key, raw in arguments.items()]
        return self._call(call.name, slots, str(number)), any(map(self._suspicious.search, values.values()))

    def shown(self, *calls: tuple[str, Mapping[str, str]]) -> str:
        """Calls as a prompt shows them: names, and what is in place of keys and values. `...` is one or more slots."""
        before, between, after = self.outer
        more = f"...{self.layout().gap}"
        each = (
            self._call(name, [more if key == "..." else self._slot(key, text) for key, text in slots.items()])
            for name, slots in calls
        )
        return before + (between or "").join(each) + after

    def _call(self, name: str, slots: Iterable[str], number: str = "1") -> str:
        p = self.layout()
        before = p.before.replace("{number}", number).replace("{name}", name)
        return f"{before}{''.join(slots)}{p.call_close.replace('{name}', name)}{p.tail}"

    def _slot(self, key: str, text: str, kind: str = "") -> str:
        """One slot. kind: JSON's name of the type."""
        p = self.layout()
        is_text = "true|false" if not kind else "true" if kind == "string" else "false"
        opening = p.value_head.removesuffix("\n" if p.lines else "").replace("{kind}", is_text).replace("{type}", kind)
        return f"{opening.replace('{key}', key)}{self._value(text)}{p.value_close.replace('{key}', key)}{p.gap}"

    def _value(self, text: str) -> str:
        """The value with the line breaks and the entities that its reader takes away again."""
        if self.xml and (ENTITY.search(text) or self._suspicious.search(text) or CDATA in text):
            text = text.replace("&", "&amp;").replace("<", "&lt;")
        p = self.layout()
        return f"\n{text}\n" if not p.exact and (p.lines or text.startswith(("\n", "\r\n"))) else text

    @functools.cached_property
    def _writable(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """The names and the keys that can be written."""
        return re.compile(self.names), re.compile(self.keys or self.layout().key)

    @functools.cached_property
    def _suspicious(self) -> re.Pattern[str]:
        """What a value can hold that the reader may take for markup. Every family's turn markers are among it."""
        p = self.layout()
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
        p = self.layout()
        own_line = "\n" if self.style == "qwen_xml" else ""  # the style writes values inline or on lines of their own
        return (
            (self.open + p.before).replace("{number}", "1"),
            own_line + p.call_close + p.tail + self.close,
            self.style,
        )

    @property
    def closers(self) -> tuple[str, ...]:
        """Markers that are no content after a call."""
        found = tuple(TAG.findall(self.close)) or tuple(TAG.findall(self.layout().tail))[-1:]
        return found or tuple(tag for tag in (self.layout().call_close,) if "{name}" not in tag)

    def opener(self, *others: tuple[str, Make]) -> Opener:
        """What begins the calls. others: patterns of what else may follow that marker, and what reads it."""
        return opener(self.trigger, fork(*others, ("", self)) if others else self)

    def unwrapped(self, *, special: bool = False) -> Opener:
        """What begins a call without the wrapper around all calls."""
        return opener(self.layout().head.rstrip("\"'"), self, consume=False, special=special)

    @property
    def openers(self) -> tuple[Opener, ...]:
        """The first tag."""
        return (self.opener(),)


def _text(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()


# -- `<function=f>` ----------------------------------------------------------------------------------------------------
# Qwen3-Coder's calls, which other models write too, and calls in the tag of the tool's name: in it a slot may be
# Qwen's, or JSON be in place of all slots.
#
#     <bash>
#     <command>ls</command>
#     </bash>

TOOL = r"\w[\w.\-]{0,63}"
"""Pattern of a name in such a tag."""

_CALL = "<tool_call>\n<function={name}>\n{slots}</function>\n</tool_call>"
_SLOT = "<parameter={key}>\n{value}\n</parameter>\n"
_NOISE = ("</function_invocation>",)  # Qwen 3.6, in addition to the others
FUNCTIONS = Slots(call=_CALL, slot=_SLOT, name_in_slot=True, noise=_NOISE, style="qwen_xml")


def tool_tag(read: Slots) -> Opener:
    """The tag of an offered tool, first on its line; `read` reads the call."""
    return Opener(
        pattern=rf"<(?P<tool>{TOOL})>",
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
    """`<invoke name="f">` in `<wrapper>`, each tag on a line of its own."""
    return Slots(
        open=f"<{wrapper}>\n",
        call='<invoke name="{name}">\n{slots}</invoke>',
        slot='<parameter name="{key}">{value}</parameter>\n',
        close=f"\n</{wrapper}>",
        style="minimax_xml",  # https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: minimax
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
