"""How the calls of each family begin, as data: marker and the reader of what follows.

Sources: the families' chat templates and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from ..parsing.fork import Branch, Fork, Nothing, Refused
from ..parsing.gemma import GemmaCalls, GemmaSyntax
from ..parsing.grammar import Context, Opener, Where, beginnings
from ..parsing.harmony import HarmonyMessage, Thought
from ..parsing.json_calls import JsonCalls
from ..parsing.json_syntax import JsonCallSyntax
from ..parsing.named import NamedCalls, NamedSyntax
from ..parsing.nested_tags import NestedCalls
from ..parsing.pythonic import PythonicCalls, PythonicSyntax
from ..parsing.sink import Body, Sink
from ..parsing.tag_syntax import TaggedSyntax
from ..parsing.tagged import TaggedCalls
from . import reading, tags

Make = Callable[[Sink], Body]


def _opener(
    marker: str, make: Make, *, where: Where = Where.ANYWHERE, consume: bool = True, special: bool = False
) -> Opener:
    return Opener(marker=marker, body=lambda sink, _: make(sink), where=where, consume=consume, special=special)


def json_calls(**syntax: object) -> Make:
    """A reader of JSON call objects."""
    made = JsonCallSyntax(**syntax)  # type: ignore[arg-type]
    return lambda sink: JsonCalls(sink, made)


def _tagged(syntax: TaggedSyntax) -> Make:
    return lambda sink: TaggedCalls(sink, syntax)


def _named(**syntax: object) -> Make:
    made = NamedSyntax(**syntax)  # type: ignore[arg-type]
    return lambda sink: NamedCalls(sink, made)


def _pythonic(**syntax: object) -> Make:
    made = PythonicSyntax(**syntax)  # type: ignore[arg-type]
    return lambda sink: PythonicCalls(sink, made)


def _markup(marker: str) -> Opener:
    return Opener(marker=marker, body=lambda sink, _: Nothing(sink))


def _bare_call(*parts: str) -> Opener:
    """An object that begins with `parts`, in either kind of quotes, where calls need no marker."""
    atoms = [re.escape(part).replace('"', "[\"']") for part in ("{", *parts)]
    return Opener(
        pattern=r"[ \t\r\n]{0,32}".join(atoms),
        partial=beginnings("{", *parts).replace('"', "[\"']"),
        consume=False,
        body=lambda sink, _: JsonCalls(sink, JsonCallSyntax(bare=True)),
        not_behind=('":', "=", "(", "[", ",", ">"),  # a part of other data, or of a session
    )


def _fork(*branches: tuple[str, Make], undecided: str = "") -> Make:
    compiled: tuple[Branch, ...] = tuple((re.compile(pattern), make) for pattern, make in branches)
    waits = re.compile(undecided)
    return lambda sink: Fork(sink, compiled, waits)


# -- JSON between markers ----------------------------------------------------------------------------------------

_hermes = json_calls(close=("</tool_call>",))
HERMES = (_opener("<tool_call>", _hermes),)
# Tags around the answer itself: markup for these families only, since others may write them in their own text.
ERNIE45 = (*HERMES, _markup("<response>"), _markup("</response>"))
_PIPED = _opener("<|tool_call|>", json_calls(close=("<|/tool_call|>",)))
GRANITE = (_PIPED, _opener("<tool_call>", _hermes))
GRANITE_20B = (_opener("<function_call>", json_calls(close=("</function_call>",))),)
_jamba = json_calls(close=("</tool_calls>",))
JAMBA = (_opener("<tool_calls>", _jamba),)
# A message of its own (3), or a token (3.1).
_gigachat = json_calls(close=("<|message_sep|>",))
GIGACHAT3 = (
    Opener(
        pattern=r"<\|message_sep\|>[ \t\r\n]{0,8}function call<\|role_sep\|>",
        partial=beginnings("<|message_sep|>", "function call<|role_sep|"),
        body=lambda sink, _: _gigachat(sink),
    ),
    _opener("function call<|role_sep|>", _gigachat),
    _opener("<|function_call|>", _gigachat),
    _markup("<|message_sep|>"),
)
NEMOTRON = (
    _opener("<TOOLCALL>", json_calls(close=("</TOOLCALL>",))),
    _opener("<toolcall>", json_calls(close=("</toolcall>",))),  # Nemotron Mini
)
PHI4_MINI = (
    _opener("functools[", json_calls(in_list=True)),
    _PIPED,  # the tokenizer's own marker, which prompts differ about
    _opener("<|tool_calls|>", json_calls(close=("<|/tool_calls|>",))),
)
INTERNLM = (
    Opener(
        pattern=r"<\|action_start\|>[ \t\r\n]{0,32}<\|plugin\|>",
        partial=beginnings("<|action_start|>", "<|plugin|"),
        body=lambda sink, _: JsonCalls(sink, JsonCallSyntax(close=("<|action_end|>",))),
    ),
)
COHERE = (_opener("<|START_ACTION|>", json_calls(close=("<|END_ACTION|>",))),)
# Command R+. Its fence belongs to the marker, for it stands behind a word.
COMMAND_R_MARKED = tuple(_opener(f"Action:{gap}```json", json_calls(close=("```",))) for gap in (" ", "\n", ""))
COMMAND_R = (
    *COMMAND_R_MARKED,
    *(_opener(f"Action:{gap}```\n", json_calls(close=("```",))) for gap in (" ", "\n", "")),
    Opener(  # without a fence
        pattern=r"Action:[ \t\r\n]{0,8}(?=\[[ \t\r\n]{0,32}\{)",
        partial=beginnings("Action:", "[", "{"),
        body=lambda sink, _: JsonCalls(sink, JsonCallSyntax()),
    ),
)
_INKLING_ENDS = ("<|end_message|>", "<|content_model_end_sampling|>")
_inkling = json_calls(close=_INKLING_ENDS)
_INKLING_JSON = "<|content_invoke_tool_json|>"
# A message begins with the tool's name, which stands in its JSON too. How messages begin and end is markup.
INKLING_MARKED = (
    _opener(_INKLING_JSON, _inkling),
    Opener(
        pattern=rf"<\|message_model\|>[ ]?[\w.\-]{{0,64}}{re.escape(_INKLING_JSON)}",
        partial=rf"{beginnings('<|message_model|>')}(?:(?<=l\|>)[ ]?[\w.\-]{{0,64}}(?:{beginnings(_INKLING_JSON)})?)?",
        first="<",
        body=lambda sink, _: _inkling(sink),
    ),
    _opener("<|content_thinking|>", lambda sink: Thought(sink, *_INKLING_ENDS)),
    *map(
        _markup,
        (*_INKLING_ENDS, "<|message_model|>", "<|content_text|>", "<|content_invoke_tool_text|>",
         "<|content_tool_error|>"),
    ),
)  # fmt: skip
INKLING = (
    *INKLING_MARKED,
    Opener(  # the prompt holds the message's marker
        pattern=rf"[A-Za-z_][\w.\-]{{0,63}}{re.escape(_INKLING_JSON)}",
        partial=rf"[A-Za-z_][\w.\-]{{0,63}}(?:{beginnings(_INKLING_JSON)})?",
        first=string.ascii_letters + "_",
        body=lambda sink, _: _inkling(sink),
        where=Where.START,
    ),
)
APERTUS = (_opener("<|tools_prefix|>", json_calls(keyed=True, close=("<|tools_suffix|>",))),)
# Functionary 3.1, and Llama 3.1 where a prompt asks for it.
FUNCTIONARY_V31 = (_opener("<function=", _named(name_ends=(">",), item_close=("</function>",))),)
LLAMA3 = (
    _opener(
        "<|python_tag|>",
        _fork(
            (r"[{\[`]", json_calls()),
            (r"[A-Za-z_][\w.]{0,200}\(", _pythonic(brackets=False)),
            undecided=r"(?:[A-Za-z_][\w.]{0,200})?",
        ),
    ),
    _bare_call('"name"', ":"),  # no marker: text may surround it
    _bare_call('"type"', ":", '"function"'),
    *FUNCTIONARY_V31,
)

# -- tags ----------------------------------------------------------------------------------------------------------

_functions = _tagged(tags.QWEN3_CODER)
QWEN3_CODER = (
    _opener("<tool_call>", _functions),
    _opener("<function=", _functions, consume=False),  # the opening <tool_call> is often missing
)
SEED_OSS = (_opener("<seed:tool_call>", _tagged(tags.SEED_OSS)),)
MINICPM5 = tuple(_opener(f"<function{space}name=", _tagged(tags.MINICPM5), consume=False) for space in (" ", "", "Ġ"))
MINIMAX = (_opener("<minimax:tool_call>", _tagged(tags.MINIMAX)),)
_step3 = _tagged(tags.STEP3)
STEP3 = (_opener("<｜tool_calls_begin｜>", _step3),)
DEEPSEEK_V32 = (
    *(_opener(f"<{wrapper}>", _tagged(syntax), special=True) for wrapper, syntax in tags.DSML.items()),
    # Without the wrapper around the calls.
    _opener("<｜DSML｜invoke name=", _tagged(tags.DSML["｜DSML｜function_calls"]), consume=False, special=True),
)
K3_THOUGHT = ("<|open|>think<|sep|>", "<|close|>think<|sep|>")
_K3_ANSWER = "<|open|>response<|sep|>"
KIMI_K3 = (
    _opener("<|open|>tools<|sep|>", _tagged(tags.KIMI_K3)),
    _opener(K3_THOUGHT[0], lambda sink: Thought(sink, K3_THOUGHT[1], _K3_ANSWER)),
    *map(_markup, (_K3_ANSWER, "<|close|>response<|sep|>", "<|close|>message<|sep|>")),
)
_GCML = "｜GCML｜"  # DeepSeek's tags by another name
GIGACHAT35 = (
    _opener(f"<{_GCML}tool_calls>", _tagged(tags.GCML)),
    _opener(f"<{_GCML}invoke name=", _tagged(tags.GCML), consume=False),
    _markup("<|message_sep|>"),
)
DOTS = (
    _opener(
        "<dots_function_call>",
        _fork((r"[{\[`]", json_calls(close=("</dots_function_call>",))), (r"<", _tagged(tags.DOTS))),
    ),
)
SOLAR_OPEN2 = (_opener("<|tool_call:start|>", _tagged(tags.SOLAR_OPEN2), consume=False),)
_IFM, _IFM_ALL = "<ifm|tool_call>", "<ifm|tool_calls>"
_k2_horizon = _tagged(tags.K2_HORIZON)
_k2_horizon_json = json_calls(
    close=(f"</{_IFM[1:]}</{_IFM_ALL[1:]}", f"</{_IFM[1:]}\n</{_IFM_ALL[1:]}", f"</{_IFM[1:]}")
)
K2_HORIZON = (
    Opener(
        pattern=rf"(?:{re.escape(_IFM_ALL)}[ \t\r\n]{{0,8}})?{re.escape(_IFM)}(?=[ \t\r\n]{{0,8}}[{{\[])",
        partial=rf"(?:{re.escape(_IFM_ALL)}[ \t\r\n]{{0,8}})?(?:{beginnings(_IFM)}(?:(?<=call>)[ \t\r\n]{{0,8}})?)?",
        first="<",
        body=lambda sink, _: _k2_horizon_json(sink),
    ),
    _opener(_IFM_ALL, _k2_horizon),
    _opener(_IFM, _k2_horizon, consume=False),  # without the wrapper
)
MIROTHINKER = (_opener("<use_mcp_tool>", _tagged(tags.MIROTHINKER)),)
_ATEM = "<atem:"
_M3 = "]<]minimax[>["
MINIMAX_M3 = (_opener(f"{_M3}<tool_call>", lambda sink: NestedCalls(sink, _M3, "tool_call")),)
_hy_v3 = _tagged(tags.HY_V3)
_HY_V3_OPEN = _opener("<tool_calls:opensource>", _tagged(tags.HY_V3_OPEN))
HY_V3 = (
    _HY_V3_OPEN,
    _opener("<tool_calls>", _hy_v3),
    _opener("<tool_call>", _tagged(tags.GLM)),  # without the wrapper
)
# A13B writes JSON there, its successors tags; one name stands for both in the engines.
_TOOL_CALLS = _opener("<tool_calls>", _fork((r"<", _hy_v3), (r"", _jamba), undecided=""))
HUNYUAN = (_TOOL_CALLS, _HY_V3_OPEN, HY_V3[2], _markup("<answer>"), _markup("</answer>"))
_glm = _tagged(tags.GLM)
GLM = (_opener("<tool_call>", _glm),)
LONGCAT = (
    _opener(
        "<longcat_tool_call>",
        _fork(
            (r"[{\[`\"']", json_calls(close=("</longcat_tool_call>",))),
            (r"\w", _tagged(tags.LONGCAT)),  # since the models of 2026
        ),
    ),
)

# Three families share `<tool_call>`. (Functionary's and Llama 3.1's `<function=f>{…}` the reader of tags knows too.)
TOOL_CALL = (
    _opener("<tool_call>", _fork((r"[{\[`\"']", _hermes), (r"<", _functions), (r"\w", _glm))),
    QWEN3_CODER[1],
)

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
_mistral_named = _named(
    name_ends=("[ARGS]", "[CALL_ID]", "{"),
    call_id=("[CALL_ID]", "[ARGS]"),
    reopen=("[TOOL_CALLS]", "[TOOL_RESULTS]", "[INST]", "</s>"),
)
_mistral = _fork((r"[{\[]", _mistral_list), (r"[^\s{\[]", _mistral_named))
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
    *HERMES,
    Opener(
        pattern=r"\[[ \t\r\n]{0,32}\{[ \t\r\n]{0,32}[\"']name[\"'][ \t\r\n]{0,32}:",
        partial=beginnings("[", "{", '"name"', ":").replace('"', "[\"']"),
        consume=False,
        body=_fenced_list,
        fences=frozenset({"json"}),
    ),
)
_deepseek = _named(
    item=("<｜tool▁call▁begin｜>",),
    name_ends=("<｜tool▁sep｜>",),
    typed=True,
    item_missing=True,
    item_close=("<｜tool▁call▁end｜>",),
    close=("<｜tool▁calls▁end｜>",),
)
DEEPSEEK = (
    *(
        _opener(marker, _deepseek, special=True)
        for marker in (
            "<｜tool▁calls▁begin｜>",
            # Small and distilled models' spellings of it, as llama.cpp knows them.
            "<｜tool calls begin｜>",
            "<｜tool\\_calls\\_begin｜>",
            "<｜tool▁calls｜>",
        )
    ),
    _opener(
        "<｜tool▁call▁begin｜>", _deepseek, consume=False, special=True
    ),  # the marker of all calls is sometimes missing
    _opener("<｜tool_calls_begin｜>", _deepseek),  # Step 3's marker is one of those spellings
)
_KIMI_ENDS = ("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
_kimi = _named(
    item=("<|tool_call_begin|>",),
    name_ends=("<|tool_call_argument_begin|>",),
    item_close=("<|tool_call_end|>",),
    close=_KIMI_ENDS,
    noise=True,
    identify=_kimi_name,
)
SOLAR_OPEN = (
    _opener(
        "<|tool_call:begin|>",
        _named(
            item=("<|tool_call:begin|>",),
            leading="<|tool_call:name|>",
            name_ends=("<|tool_call:args|>",),
            item_close=("<|tool_call:end|>",),
        ),
        consume=False,
    ),
    _opener("<|think|>", lambda sink: Thought(sink, "<|end|>")),
    # With its channel, as far as it is in the text: a turn's parts are messages.
    *map(_markup, ("<|end|><|begin|>assistant", "<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|calls|>")),
)
KIMI_K2 = (
    _opener("<|tool_calls_section_begin|>", _kimi, special=True),
    _opener("<|tool_call_section_begin|>", _kimi, special=True),
    _opener("<|tool_call_begin|>", _kimi, consume=False, special=True),  # the section's marker is sometimes missing
)
_functionary = _named(name_ends=("\n", "{"))
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

PYTHONIC = (_opener("[", _pythonic(bare=True), where=Where.START, consume=False),)
LLAMA4 = (_opener("<|python_start|>", _pythonic(close=("<|python_end|>",))), *PYTHONIC)
_lfm2 = _pythonic(close=("<|tool_call_end|>",), echoed=True)
LFM2 = (
    _opener(
        "<|tool_call_start|>",
        _fork(
            (r"\[?[ \t\r\n]*\{", json_calls(close=("<|tool_call_end|>",))),
            (r"\[", _lfm2),
            (r"[A-Za-z_][\w.]{0,200}\(", _pythonic(brackets=False, close=("<|tool_call_end|>",))),
            undecided=r"\[?[ \t\r\n]*|[A-Za-z_][\w.]{0,200}",
        ),
    ),
)
_olmo3 = _pythonic(brackets=False, close=("</function_calls>",))
OLMO3 = (_opener("<function_calls>", _fork((r"[^<\s]", _olmo3), (r"<", _tagged(tags.UNTAGGED)))),)


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
    return (_opener(marker, make), bare)


FUNCTIONGEMMA = _gemma("<start_function_call>", GemmaSyntax("<end_function_call>", "<escape>"))
GEMMA4 = (
    *_gemma("<|tool_call>", GemmaSyntax("<tool_call|>", '<|"|>', inner='"')),
    _opener("<|channel>thought", lambda sink: Thought(sink, "<channel|>")),
)


def _harmony(sink: Sink, context: Context) -> Body:
    return HarmonyMessage(sink, context.opening)


_HEADS = ("to=", "commentary to=")  # of a message whose marker stands in the prompt
HARMONY = (
    Opener(marker="<|channel|>", body=_harmony),
    Opener(marker="<|start|>assistant", body=_harmony),
    *(Opener(marker=head, body=_harmony, where=Where.START) for head in _HEADS),
)


def _addressed(opening: str = "") -> Callable[[Sink, Context], Body]:
    return lambda sink, context: HarmonyMessage(sink, opening or context.opening, tags=_ATEM)


# Messages as harmony's, in which calls have tags of their own.
ATEM = (
    _opener(f"{_ATEM}function_calls>", _tagged(tags.ATEM)),
    _opener(f"{_ATEM}invoke name=", _tagged(tags.ATEM), consume=False),  # without the wrapper
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
    *TOOL_CALL,
    *LONGCAT,
    GRANITE[0],
    *GRANITE_20B,
    _TOOL_CALLS,
    _HY_V3_OPEN,
    *GIGACHAT3,
    *NEMOTRON,
    PHI4_MINI[0],
    PHI4_MINI[2],
    *INTERNLM,
    *COHERE,
    *APERTUS,
    LLAMA3[0],
    *SEED_OSS,
    *MINICPM5,
    *MINIMAX,
    *MINIMAX_M3,
    *KIMI_K3,
    _opener(
        "<｜tool_calls_begin｜>",
        _fork(
            (r"(?:function)?<｜tool▁", _deepseek),
            (r"", _step3),
            undecided=rf"(?:{beginnings('<｜tool')}|{beginnings('function<｜tool')})?",
        ),
    ),
    *DEEPSEEK_V32,
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
    *INKLING_MARKED,
    *COMMAND_R_MARKED,
    *GIGACHAT35[:-1],
    *DOTS,
    *SOLAR_OPEN2,
    *K2_HORIZON,
    *MIROTHINKER,
    reading.WRAPPED_JSON,
    reading.BARE_JSON[0],
    _opener(
        "[",
        _fork(
            (r"\[[ \t\r\n]*\{", json_calls(bare=True)),
            (r"\[[ \t\r\n]*[A-Za-z_]", _pythonic(bare=True)),
            undecided=r"\[[ \t\r\n]*",
        ),
        where=Where.START,
        consume=False,
    ),
)
