"""How the calls of families begin that write a name and then JSON, Python, Gemma's notation or messages; and of all.

Sources: the families' chat templates and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from ..parsing.calls.fork import Nothing, Refused
from ..parsing.calls.gemma_calls import GemmaCalls, GemmaSyntax
from ..parsing.calls.harmony_messages import HarmonyMessage, Thought
from ..parsing.calls.json_calls import JsonCalls
from ..parsing.calls.json_syntax import JsonCallSyntax
from ..parsing.calls.named_calls import NamedCalls, NamedSyntax
from ..parsing.sink import Body, Sink
from ..parsing.text.grammar import Context, Opener, Where, beginnings
from . import json_openers, reading, tag_openers, tags
from .opening import fork, json_calls, markup, named, opener, pythonic, tagged

# -- a name, then JSON ---------------------------------------------------------------------------------------------

_KIMI_NAME = re.compile(r"(?:functions[._]?)?(?P<name>.+?)(?:[:_]?\d+)?", re.DOTALL)


def _kimi_name(written: str, offered: Callable[[str], bool]) -> tuple[str, str | None]:
    """`functions.f:0` is f; the whole is the call's id. Ids altered by clients come back too: `functions_f_0`."""
    head, colon, number = written.rpartition(":")
    name = (head if colon and number.isdigit() else written).removeprefix("functions.")
    if not offered(name):
        altered = _KIMI_NAME.fullmatch(written)
        for other in (name.rpartition(".")[2], altered.group("name") if altered else ""):
            if other and offered(other):
                return other, written
    return name, written


_mistral_list = json_calls(close=())
_mistral_named = named(
    name_ends=("[ARGS]", "[CALL_ID]", "{"),
    call_id=("[CALL_ID]", "[ARGS]"),
    reopen=("[TOOL_CALLS]", "[TOOL_RESULTS]", "[INST]", "</s>"),
)
_mistral = fork((r"[{\[]", _mistral_list), (r"[^\s{\[]", _mistral_named))
MISTRAL = (
    Opener(  # the marker may repeat
        pattern=r"\[TOOL_CALLS\](?:[ \t\r\n]{0,8}\[TOOL_CALLS\]){0,3}",
        partial=r"(?:\[TOOL_CALLS\][ \t\r\n]{0,8}){0,3}(?:" + beginnings("[TOOL_CALLS") + ")?",
        first="[",
        body=lambda sink, _: _mistral(sink),
    ),
)
# Which of the two a model writes depends on its tokenizer's version, and some write the other one.
MISTRAL_OLD = MISTRAL_V11 = MISTRAL


def _fenced_list(sink: Sink, context: Context) -> Body:
    return JsonCalls(sink, JsonCallSyntax(bare=True)) if context.at_start or context.fenced else Refused()


# Besides the bare list that is the whole answer: a block behind text.
XLAM = (
    *MISTRAL,
    *json_openers.HERMES,
    Opener(
        pattern=r"\[[ \t\r\n]{0,32}\{[ \t\r\n]{0,32}[\"']name[\"'][ \t\r\n]{0,32}:",
        partial=beginnings("[", "{", '"name"', ":").replace('"', "[\"']"),
        consume=False,
        body=_fenced_list,
        fences=frozenset({"json"}),
    ),
)
_deepseek = named(
    item=("<｜tool▁call▁begin｜>",),
    name_ends=("<｜tool▁sep｜>",),
    typed=True,
    item_missing=True,
    item_close=("<｜tool▁call▁end｜>",),
    close=("<｜tool▁calls▁end｜>",),
)
DEEPSEEK = (
    *(
        opener(marker, _deepseek, special=True)
        for marker in (
            "<｜tool▁calls▁begin｜>",
            # Small and distilled models' spellings of it, as llama.cpp knows them.
            "<｜tool calls begin｜>",
            "<｜tool\\_calls\\_begin｜>",
            "<｜tool▁calls｜>",
        )
    ),
    opener(
        "<｜tool▁call▁begin｜>", _deepseek, consume=False, special=True
    ),  # the marker of all calls is sometimes missing
    opener("<｜tool_calls_begin｜>", _deepseek),  # Step 3's marker is one of those spellings
)
_KIMI_ENDS = ("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
_kimi = named(
    item=("<|tool_call_begin|>",),
    name_ends=("<|tool_call_argument_begin|>",),
    item_close=("<|tool_call_end|>",),
    close=_KIMI_ENDS,
    noise=True,
    identify=_kimi_name,
)
SOLAR_OPEN = (
    opener(
        "<|tool_call:begin|>",
        named(
            item=("<|tool_call:begin|>",),
            leading="<|tool_call:name|>",
            name_ends=("<|tool_call:args|>",),
            item_close=("<|tool_call:end|>",),
        ),
        consume=False,
    ),
    opener("<|think|>", lambda sink: Thought(sink, "<|end|>")),
    # With its channel, as far as it is in the text: a turn's parts are messages.
    *map(markup, ("<|end|><|begin|>assistant", "<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|calls|>")),
)
KIMI_K2 = (
    opener("<|tool_calls_section_begin|>", _kimi, special=True),
    opener("<|tool_call_section_begin|>", _kimi, special=True),
    opener("<|tool_call_begin|>", _kimi, consume=False, special=True),  # the section's marker is sometimes missing
)
_functionary = named(name_ends=("\n", "{"))
_FUNCTIONARY_ALL = Opener(marker=">>>all\n", body=lambda sink, _: Nothing(sink))
_RECIPIENT = r"[A-Za-z_][\w.\-]{0,63}"
FUNCTIONARY_V32_MARKED = (
    _FUNCTIONARY_ALL,
    Opener(  # with its JSON: Python's own prompt looks the same
        pattern=rf">>>(?={_RECIPIENT}[ \t\r]{{0,4}}\n?[ \t]{{0,8}}\{{)",
        partial=rf">(?:>(?:>(?:{_RECIPIENT}[ \t\r]{{0,4}}(?:\n?[ \t]{{0,8}})?)?)?)?",
        body=lambda sink, _: _functionary(sink),
    ),
)
FUNCTIONARY_V32 = (
    *FUNCTIONARY_V32_MARKED,
    # The first `>>>` may stand in the prompt.
    Opener(marker="all\n", body=lambda sink, _: Nothing(sink), where=Where.START),
    Opener(
        pattern=rf"{_RECIPIENT}\n[ \t]{{0,8}}\{{",
        partial=rf"{_RECIPIENT}(?:\n[ \t]{{0,8}})?",
        first=string.ascii_letters + "_",
        body=lambda sink, _: NamedCalls(sink, NamedSyntax(name_ends=("\n",))),
        where=Where.START,
        consume=False,
    ),
)

# -- Python, Gemma, harmony ----------------------------------------------------------------------------------------

PYTHONIC = (opener("[", pythonic(bare=True), where=Where.START, consume=False),)
LLAMA4 = (opener("<|python_start|>", pythonic(close=("<|python_end|>",))), *PYTHONIC)
_lfm2 = pythonic(close=("<|tool_call_end|>",), echoed=True)
LFM2 = (
    opener(
        "<|tool_call_start|>",
        fork(
            (r"\[?[ \t\r\n]*\{", json_calls(close=("<|tool_call_end|>",))),
            (r"\[", _lfm2),
            (r"[A-Za-z_][\w.]{0,200}\(", pythonic(brackets=False, close=("<|tool_call_end|>",))),
            undecided=r"\[?[ \t\r\n]*|[A-Za-z_][\w.]{0,200}",
        ),
    ),
)
_olmo3 = pythonic(brackets=False, close=("</function_calls>",))
OLMO3 = (opener("<function_calls>", fork((r"[^<\s]", _olmo3), (r"<", tagged(tags.UNTAGGED)))),)


def _gemma(marker: str, syntax: GemmaSyntax) -> tuple[Opener, ...]:
    def make(sink: Sink) -> Body:
        return GemmaCalls(sink, syntax)

    bare = Opener(  # a backend may have dropped the markers
        pattern=r"call:[A-Za-z_][\w.\-]{0,63}\{",
        partial=r"c(?:a(?:l(?:l(?::(?:[A-Za-z_][\w.\-]{0,63})?)?)?)?)?",
        body=lambda sink, _: make(sink),
        where=Where.START,
        consume=False,
    )
    return (opener(marker, make), bare)


FUNCTIONGEMMA = _gemma("<start_function_call>", GemmaSyntax("<end_function_call>", "<escape>"))
GEMMA4 = (
    *_gemma("<|tool_call>", GemmaSyntax("<tool_call|>", '<|"|>', inner='"')),
    opener("<|channel>thought", lambda sink: Thought(sink, "<channel|>")),
)


def _harmony(sink: Sink, context: Context) -> Body:
    return HarmonyMessage(sink, context.opening)


_HEADS = ("to=", "commentary to=")  # of a message whose marker stands in the prompt
HARMONY = (
    Opener(marker="<|channel|>", body=_harmony),
    Opener(marker="<|start|>assistant", body=_harmony),
    *(Opener(marker=head, body=_harmony, where=Where.START) for head in _HEADS),
)


_ATEM = "<atem:"


def _addressed(opening: str = "") -> Callable[[Sink, Context], Body]:
    return lambda sink, context: HarmonyMessage(sink, opening or context.opening, tags=_ATEM)


# Messages as harmony's, in which calls have tags of their own.
ATEM = (
    opener(f"{_ATEM}function_calls>", tagged(tags.ATEM)),
    opener(f"{_ATEM}invoke name=", tagged(tags.ATEM), consume=False),  # without the wrapper
)
HARMONY_ATEM = (
    Opener(marker="<|channel|>", body=_addressed()),
    *(
        Opener(marker=f"{end}<|start|>assistant", body=_addressed("<|start|>assistant"))
        for end in ("", "<|eom|>", "<|eot|>")
    ),
    *(Opener(marker=head, body=_addressed(), where=Where.START) for head in _HEADS),
    Opener(marker="<|message|>", body=lambda sink, _: Nothing(sink), where=Where.START),
)
MUSE_GLIMMER = (*ATEM, *HARMONY_ATEM)

# -- all of them ---------------------------------------------------------------------------------------------------

# One scanner for every family. Where two share a marker, what follows it tells them apart.
AUTO: tuple[Opener, ...] = (
    *tag_openers.TOOL_CALL,
    *tag_openers.LONGCAT,
    json_openers.GRANITE[0],
    *json_openers.GRANITE_20B,
    tag_openers.TOOL_CALLS,
    tag_openers.HY_V3_OPEN,
    *json_openers.GIGACHAT3,
    *json_openers.NEMOTRON,
    json_openers.PHI4_MINI[0],
    json_openers.PHI4_MINI[2],
    *json_openers.INTERNLM,
    *json_openers.COHERE,
    *json_openers.APERTUS,
    json_openers.LLAMA3[0],
    *tag_openers.SEED_OSS,
    *tag_openers.MINICPM5,
    *tag_openers.MINIMAX,
    *tag_openers.MINIMAX_M3,
    *tag_openers.KIMI_K3,
    opener(
        "<｜tool_calls_begin｜>",
        fork(
            (r"(?:function)?<｜tool▁", _deepseek),
            (r"", tag_openers.step3),
            undecided=rf"(?:{beginnings('<｜tool')}|{beginnings('function<｜tool')})?",
        ),
    ),
    *tag_openers.DEEPSEEK_V32,
    *MISTRAL,
    *DEEPSEEK[:-1],
    *KIMI_K2,
    SOLAR_OPEN[0],
    *FUNCTIONARY_V32_MARKED,
    LLAMA4[0],
    *LFM2,
    *OLMO3,
    FUNCTIONGEMMA[0],
    *GEMMA4,
    *ATEM,
    *HARMONY_ATEM,
    *json_openers.INKLING_MARKED,
    *json_openers.COMMAND_R_MARKED,
    *tag_openers.GIGACHAT35[:-1],
    *tag_openers.DOTS,
    *tag_openers.SOLAR_OPEN2,
    *tag_openers.K2_HORIZON,
    *tag_openers.MIROTHINKER,
    reading.WRAPPED_JSON,
    reading.BARE_JSON[0],
    opener(
        "[",
        fork(
            (r"\[[ \t\r\n]*\{", json_calls(bare=True)),
            (r"\[[ \t\r\n]*[A-Za-z_]", pythonic(bare=True)),
            undecided=r"\[[ \t\r\n]*",
        ),
        where=Where.START,
        consume=False,
    ),
)
