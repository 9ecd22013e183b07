"""What models write around their calls and answers, family by family, and all of it together.

Every reader must know the markup of every family: a model says what it was trained on, whatever the prompt asks for,
and a tool's result may hold the markers of any of them. So each family declares its own, and this module gathers them
when the first text is read or shown.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Escape:
    """A marker that text must not hold: a backslash comes between its two parts."""

    opening: str
    """Pattern of how it opens. No marker opens before its last character."""
    follow: str
    """Pattern of what makes a marker of it. No more is looked at than needed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Markup:
    """What a family's models write besides calls and text. Compared by identity: what is made of it is kept."""

    reasoning: tuple[tuple[str, str], ...] = ()
    """Opening and closing tag of what a model thinks."""
    stops: tuple[str, ...] = ()
    """What a model writes when it goes on with the tool's or the user's part after its own calls."""
    ends: tuple[str, ...] = ()
    """What ends a turn: no content at the end of an answer."""
    closers: tuple[str, ...] = ()
    """What ends a call: no content directly after one, even where its opening marker was left out."""
    noise: tuple[str, ...] = ()
    """Markers around plain answers: never content."""
    tags: tuple[str, ...] = ()
    """Patterns of tags that text must not hold, without the leading `<` or `</`."""
    escapes: tuple[Escape, ...] = ()
    """Markers that text must not hold and that do not begin with `<`."""


# The beginning of a JSON call without a marker, after its brace, as far as needed to distinguish it from data. Names
# are those of JsonCallSyntax; text that is neutralised already may hold a backslash.
_GAP = r"[ \t\r\n]{0,32}"
_WORD = r"[\"']\\*[\w.:/\-]{1,128}[\"']"


def _key(words: str) -> str:
    return rf"{_GAP}[\"'](?:{words})[\"']{_GAP}:{_GAP}"


# Turns and roles of families that have no reader here, by the shapes that special tokens have.
_TURN_TAGS = (
    r"\|[\"/\w]",  # <|im_start|>: ChatML, Llama 3, harmony, Kimi, Cohere, InternLM, Gemma 4 and most others
    r"[A-Za-z_]{2,32}\|>",  # <channel|>
    r"_[a-z]{2,16}>",  # <_user>: TeleChat
    r"(?i:reserved|unused|special|extra|placeholder)_?\w{0,24}\d>",  # <reserved_106>: Baichuan
    r"[BC]_[A-Z]{1,8}>",  # <B_SYS>: Baichuan
    r"(?i:(?:begin|beginning|start|end)_?of_?[a-z_]{2,32})>",  # <beginning_of_sentence>: MiniMax-Text
    r"(?i:eo[a-z]{1,4}|[sb]o[ahmpstu]|sep)>",  # <eoh>, <sop>, <sep>: InternLM, MOSS, GLM, Reka
    r"(?i:(?:bos|eos|pad|unk|sep|cls|eop|eot)_token)>",  # <BOS_TOKEN>: Cohere
    r"(?i:role|human|bot|ai|assistant)>",  # <role>, <AI>: Ling, MiniCPM; <user> and <system> are everyday XML
    r"(?:USER|SYSTEM|TOOL|OBSERVATION)>",
    "(?:用户|助手|系统|工具|人类|机器人|问|答)>",
    r"(?i:system|user|human|bot|assistant)>[ \t]?:",  # <human>: of GPT-NeoXT
    r"end>\|",  # |<end>|: CodeShell
)
_TURN_ESCAPES = (
    Escape(r"\[", r"\|/?[A-Za-z][\w ]{1,31}\|\]"),  # [|endofturn|]: EXAONE, BlueLM, Jais
    Escape(r"\[", r"(?i:unused|reserved|extra_id|placeholder)\w{0,24}\d\]"),  # [unused9]: openPangu
    Escape(r"\[", r"/?(?:BOS|EOS|SEP|CLS|PAD|UNK|EOT|EOM|BOT|USER|ASSISTANT|HUMAN|[gs]?MASK)\]"),  # Skywork, Kimi, GLM
    Escape(r"\[", r"(?:start|end)_header_id\]"),  # Kimi
    Escape(">", r">[A-Z]{4,16}<<"),  # >>ANSWER<<: Falcon
)

_OTHERS = rf"(?:{_key('id|tool_call_id|call_id|type')}{_WORD}{_GAP},){{0,2}}"
_CALL = "|".join(
    (
        (
            rf"{_OTHERS}{_key('name|tool_name|function|tool|recipient_name|action')}{_WORD}{_GAP},"
            rf"{_OTHERS}{_key('arguments|parameters|args|input|params|tool_input|kwargs|action_input')}[{{\"']"
        ),
        rf"{_key('arguments|parameters|action_input')}[{{\"']",
        rf"{_OTHERS}{_key('function|function_call')}\{{",
    )
)

# What no family owns: tags that most share, and those of the format `json`.
COMMON = Markup(
    reasoning=(("<think>", "</think>"),),  # DeepSeek R1, Qwen 3, GLM, MiniMax and most others
    stops=("<tool_result ", "<tool_result>", "<tool_results>"),
    ends=("</s>", "<|eos|>"),
    # Small models also end calls with these that have no opening tag.
    closers=("</tool_call>", "</tool_calls>", "</function_call>", "</function_calls>", "</function>", "</tools>"),
    tags=(
        r"(?i:tool_(?:call|result|response|output))",  # Hermes, Qwen, GLM, Jamba, Hunyuan, and our own results
        r"tools>",
        r"(?i:(?:mm:)?think(?:ing)?[>:])",
        r"(?:s|pad|unk)>",
        *_TURN_TAGS,
    ),
    escapes=(
        Escape(r"\[", r"(?:/?TOOL_CALL\]|Calling tool:)"),
        *_TURN_ESCAPES,
        Escape('"', r"tool_calls[\"']"),  # the key of our own format
        Escape("'", r"tool_calls[\"']"),
        Escape(r"\{", _CALL),  # a result that is a call in bare JSON, and comes back when the model repeats it
    ),
)


@functools.cache
def families() -> tuple[Any, ...]:
    """Every built-in family. Imports all of them."""
    found: tuple[Any, ...] = importlib.import_module(f"{__package__}.families").FAMILIES
    return found


@functools.cache
def by_name() -> dict[str | None, Any]:
    """Every built-in family by its name."""
    return {family.name: family for family in families()}


@functools.cache
def gathered() -> Markup:
    """The markup of all families. Imports all of them."""
    known = (COMMON, *(family.markup for family in families()), *_private)
    return Markup(**{each.name: _once(getattr(part, each.name) for part in known) for each in fields(Markup)})


_private: dict[Markup, None] = {}


def add(own: Markup) -> None:
    """Have every reader know the markup of a family that is not built in, as of now. Safe in any thread."""
    global _private  # noqa: PLW0603 - replaced as a whole: the loop may go through the old one meanwhile
    _private = {**_private, own: None}
    gathered.cache_clear()
    turn_markers.cache_clear()


@functools.cache
def turn_markers() -> tuple[str, ...]:
    """Markers that no call's value extends past: ends of turns, and beginnings of other roles' turns."""
    found = gathered()
    return (*found.ends, *found.stops)


def _once(parts: Iterable[tuple[_T, ...]]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))
