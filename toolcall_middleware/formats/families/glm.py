"""GLM and the models that write as it does: the name, then keys and values, each in a tag."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any

from ...parsing.cursor import Cursor, NotACall, Steps
from ...parsing.text.grammar import Opener, Where
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.thoughts import Returned, Thoughts, between
from ..prompt.tool_results import SIGNATURES, between_tags, one_a_line
from ..prompt.tools import function
from ..syntax.json import Json
from ..syntax.shape import fork, ignored, json_calls, opener, shared
from ..syntax.slots import NO_INVOKE, TOOL_TAG, Slots

# -- GLM ---------------------------------------------------------------------------------------------------------------
# Z.ai's GLM: the name, then keys and values, each in a tag, within `<tool_call>`.

_GLM_MARKUP = Markup(
    stops=("<tool_response>", "<|user|>", "<|observation|>"),
    ends=("<|role_end|>",),  # Ling 3
    closers=("</role>",),  # Ling
    tags=("arg_(?:key|value)[>:]",),
    escapes=(Escape(r"\[", r"gMASK\]"),),
)

_LINES = Slots(
    call="<tool_call>{name}[<tool_sep>]\n{slots}</tool_call>",
    slot="<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n",
    between="\n",
    bare=True,
    style="glm_xml",  # the style has no line break between a key and its value: the tags say the same
)
_LINE = Slots(
    call="<tool_call>{name}{slots}</tool_call>",
    slot="<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
    between="",
    bare=True,
    style="glm_xml",  # https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: glm_4_7
)
TOOL_CALL = shared(_LINES.trigger, _LINES, r"\w", close=_LINES.closers[0])
_NAME, _WS = r"[A-Za-z0-9_][\w.\-]{0,127}", r"[ \t\r\n]{0,8}"
_LOST = Opener(  # the marker is lost
    pattern=rf"(?P<tool>{_NAME}){_WS}{_LINES.layout().slot_head}",
    where=Where.START,
    named=True,
    consume=False,
    body=_LINES,
)
_GLM_OPENERS = (TOOL_CALL, _LOST, TOOL_TAG)

_SHOWN = "{function-name}", {"{arg-key-1}": "{arg-value-1}", "{arg-key-2}": "{arg-value-2}", "...": ""}
_GLM_PROMPT = (
    SIGNATURES
    + """\
For each function call, output the function name and arguments within the following XML format:
"""
)

# https://huggingface.co/zai-org/GLM-4.6 (llama.cpp: models/templates/GLM-4.6.jinja)
GLM45 = Family(
    name="glm45",
    about="the name, `<arg_key>` and `<arg_value>` within `<tool_call>`: GLM 4.5 and 4.6",
    models={"glm4.[56]": "[vllm] glm45"},
    alike={
        "laguna": "[vllm] poolside_v1: GLM's tags",
        "ling3": "[vllm] ling3: GLM's tags",
        "ling-flash3": "the same",
    },
    calls=_LINES,
    auto_openers=_GLM_OPENERS,
    markup=_GLM_MARKUP,
    thoughts=Thoughts(returned=Returned.TURN, source="[llama.cpp] GLM-4.6"),
    prompt=_GLM_PROMPT + _LINES.shown(_SHOWN),
    tool=function,
    results=between_tags("<tool_response>\n", "\n</tool_response>"),
    special_tokens=True,
)

# https://huggingface.co/zai-org/GLM-4.7
GLM47 = Family(
    name="glm47",
    about="as `glm45`, on one line: GLM 4.7 and 5",
    models={
        "glm4.7": "[vllm] glm47",
        "glm5": "[sglang] glm47",
    },
    alike={"spark2.5": "[llama.cpp] Spark2.5"},
    calls=_LINE,
    auto_openers=_GLM_OPENERS,
    markup=_GLM_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] GLM-4.7-Flash; [card] GLM-5",
        other={"glm5.[3-9]": (Returned.ALL, "[card] GLM-5.3: clear_thinking is false by default")},
        opened={"glm4.7": "[llama.cpp] GLM-4.7-Flash", "glm5": "[card] GLM-5"},
    ),
    prompt=_GLM_PROMPT + _LINE.shown(_SHOWN),
    tool=function,
    results=between_tags("<tool_response>", "</tool_response>", between=""),
    special_tokens=True,
)


# -- Hunyuan -----------------------------------------------------------------------------------------------------------
# Tencent's Hunyuan: a JSON list (A13B), or GLM's tags with a wrapper (Hy3, Hy4), within `<tool_calls>`.
#
# Hy3 writes a separator after the name, Hy4 none. Every tag's name ends with a suffix of the checkpoint:
# `<tool_call:opensource>`, `<tool_call:6124c78e>`; any is read.
#
# Sources: the models' chat templates, and the parsers and tests of vLLM (tests/tool_parsers/test_hy_v4_tool_parser.py),
# SGLang and llama.cpp.

_HY3, _HY4 = ":opensource", ":6124c78e"
_PUBLISHED = (_HY3, _HY4)
_MOST_SUFFIXES = 2  # others in one answer: a checkpoint has one, and patterns are made for each

_HUNYUAN_MARKUP = Markup(
    stops=(*(f"<tool_responses{suffix}>" for suffix in _PUBLISHED), "<tool_responses>"),
    tags=("tool_sep[>:]",),
)


@functools.lru_cache(maxsize=32)
def _suffixed_tags(suffix: str, separator: str = "<tool_sep>") -> Slots:
    """As GLM's, a wrapper around all calls and perhaps a separator after the name; `suffix` ends each tag's name."""
    end = f"{suffix}>"
    return Slots(
        open=f"<tool_calls{end}\n",
        call=f"<tool_call{end}{{name}}{separator.replace('>', end)}\n{{slots}}</tool_call{end}",
        slot=f"<arg_key{end}{{key}}</arg_key{end}\n<arg_value{end}{{value}}</arg_value{end}\n",
        close=f"\n</tool_calls{end}",
    )


def _suffixed(c: Cursor) -> Steps[None]:
    """Read the tags with the suffix that the opening has."""
    sink, suffix = c.sink, c.opening[c.opening.index(":") : -1]
    if suffix not in _PUBLISHED and suffix not in sink.learned:
        if len(sink.learned) == _MOST_SUFFIXES:
            raise NotACall
        sink.learned = (*sink.learned, suffix)
    yield from _suffixed_tags(suffix)(c)


_SUFFIXED = tuple(
    Opener(
        pattern=rf"<{tag}:[A-Za-z0-9_\-]{{1,32}}>",
        body=_suffixed,
        consume=tag == "tool_calls",
    )
    for tag in ("tool_calls", "tool_call")  # the second: without the wrapper
)
_LIST = Json(open="<tool_calls>[", between=", ", close="]</tool_calls>")
_plain = _suffixed_tags("")

_HUNYUAN_PROMPT = """\
For function call returns, you should first print %s
For each function call, you should return object like:
%s
At the end of function call returns, you should print %s"""


def _hunyuan(suffix: str, separator: str, **names: Any) -> Family:
    calls = _suffixed_tags(suffix, separator)
    one = replace(calls, open="", close="").shown(_SHOWN)
    return Family(
        **names,
        calls=calls,
        auto_openers=(
            *_SUFFIXED,
            shared(_plain.trigger, _plain, NO_INVOKE),
            TOOL_CALL,  # without the wrapper
        ),
        markup=_HUNYUAN_MARKUP,
        thoughts=between(f"<think{suffix}>", f"</think{suffix}>"),
        prompt=SIGNATURES + _HUNYUAN_PROMPT % (calls.marker, one, calls.closers[0]),
        tool=function,
        results=between_tags(
            f"<tool_response{suffix}>\n",
            f"\n</tool_response{suffix}>",
            before=f"<tool_responses{suffix}>\n",
            after=f"\n</tool_responses{suffix}>",
        ),
        answer=f"the calls between {calls.trigger} and {calls.closers[0]}",
        special_tokens=True,
    )


# https://huggingface.co/tencent/Hy3-preview (llama.cpp: models/templates/tencent-Hy3.jinja)
HY_V3 = _hunyuan(
    _HY3,
    "<tool_sep>",
    name="hy_v3",
    about="as `glm45`, with `<tool_sep>` after the name, within `<tool_calls>`, a suffix in each tag: Hunyuan 3",
    models={"hy3": "[vllm] hy_v3"},
)

# https://huggingface.co/tencent/Hy4-preview. The calls are as vLLM's parser reads them; that the tools and the results
# are laid out as Hy3's template has them is not established from a source.
HY_V4 = _hunyuan(
    _HY4,
    "",
    name="hy_v4",
    about="as `hy_v3`, without the separator: Hunyuan 4",
    models={"hy4": "[vllm] hy_v4"},
)

# https://huggingface.co/tencent/Hunyuan-A13B-Instruct (vLLM: examples/tool_chat_template_hunyuan_a13b.jinja)
HUNYUAN = Family(
    name="hunyuan",
    about="a JSON list within `<tool_calls>` tags: Hunyuan A13B",
    models={"hunyuan": "[vllm] hunyuan_a13b"},
    calls=_LIST,
    auto_openers=(),
    own_openers=(
        opener(_LIST.marker, fork((r"<", _plain), (r"", _LIST))),  # the engines have one name for both
        *_SUFFIXED,
        TOOL_CALL,
        ignored("<answer>"),
        ignored("</answer>"),
    ),
    markup=_HUNYUAN_MARKUP,
    prompt="""\
你是一位函数组合专家。你会得到一个问题和一组可能的函数。根据问题，你需要进行一个或多个函数/工具调用以实现目的。
如果没有一个函数可以使用，请直接使用自然语言回复用户。
如果给定的问题缺少函数所需的参数，请使用自然语言进行提问，向用户询问必要信息。
如果调用结果已经足够回答用户问题，请对历史结果进行总结，使用自然语言回复用户。
你应该只在工具调用部分返回函数调用。如果你决定调用任何函数，你必须将其格式化为<tool_calls>[{"name": "func_name1", \
"arguments": {"argument1": "value1", "argument2": "value2"}},...]</tool_calls>。你不应该在回复中包含任何其他文本。\
以下是你可以调用的函数列表，格式为JSON。

[{tools}]""",
    tool=function,
    between=", ",
    results=between_tags("<tool_response>", "</tool_response>"),
)


# -- IQuest ------------------------------------------------------------------------------------------------------------
# IQuest's Q1: GLM's tags within `<iquest_tool_call>`, and nothing between them.
#
# Sources: SGLang's parser and its tests (function_call/iquest_q1_detector.py). How the template lays out tools and
# results is not established from a source: the words of the prompt and the form of the results are ours.

# https://huggingface.co/IQuestLab/IQuest-Q1
IQUEST_Q1 = Family(
    name="iquest_q1",
    about="as `glm47`, within `<iquest_tool_call>`: IQuest Q1",
    models={"iquest-q1": "[sglang] iquest_q1"},
    calls=replace(_LINE, call="<iquest_tool_call>{name}{slots}</iquest_tool_call>", exact=True),
    markup=Markup(ends=("<|iquest_end|>",), tags=("iquest_",)),
    prompt=one_a_line(
        "To call functions, answer in this form, without anything between the tags. Strings stand in it as they are, "
        "other values as JSON",
        within="tools",
    ),
    special_tokens=True,
)


# -- K2 Horizon --------------------------------------------------------------------------------------------------------
# LLM360's K2 Horizon: GLM's tags with `ifm|` in each, types perhaps among them; or JSON there.

_SLOTS = Slots(
    open="<ifm|tool_calls>",
    call="<ifm|tool_call>{name}{slots}</ifm|tool_call>",
    slot="<ifm|arg_key>{key}</ifm|arg_key>[<ifm|arg_type>{kind}</ifm|arg_type>]<ifm|arg_value>{value}</ifm|arg_value>",
    close="</ifm|tool_calls>",
)

_ONE, _ALL = _SLOTS.layout().head, _SLOTS.trigger
_json = json_calls(close=(f"</{_ONE[1:]}</{_ALL[1:]}", f"</{_ONE[1:]}\n</{_ALL[1:]}", f"</{_ONE[1:]}"))

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_k2_horizon_tool_parser.py); the words are ours.
K2_HORIZON = Family(
    name="k2_horizon",
    about="as `glm47`, with `ifm|` in each tag, within `<ifm|tool_calls>`; or JSON there: K2 Horizon",
    models={"k2-horizon": "[sglang] k2_horizon"},
    calls=_SLOTS,
    auto_openers=(
        Opener(
            pattern=rf"(?:{re.escape(_ALL)}[ \t\r\n]{{0,8}})?{re.escape(_ONE)}(?=[ \t\r\n]{{0,8}}[{{\[])", body=_json
        ),
        _SLOTS.opener(),
        _SLOTS.unwrapped(),
    ),
    markup=Markup(tags=(r"ifm\|",)),
    prompt=one_a_line(
        "To call tools, answer in this form. Strings stand in it as they are, other values as JSON",
        may="You may call the tools",
        within="tools",
    ),
    answer=f"the calls between {_ALL} and {_SLOTS.closers[0]}",
    noun="tool",
    special_tokens=True,
)
