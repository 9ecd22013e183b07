"""Tencent's Hunyuan: a JSON list (A13B), or GLM's tags with a wrapper (Hy3, Hy4), within `<tool_calls>`.

Hy3 writes a separator behind the name, Hy4 none. Every tag's name ends with a suffix of the checkpoint:
`<tool_call:opensource>`, `<tool_call:6124c78e>`; any is read.

Sources: the models' chat templates, and the parsers and tests of vLLM (tests/tool_parsers/test_hy_v4_tool_parser.py),
SGLang and llama.cpp.
"""

from __future__ import annotations

import functools

from ...parsing.cursor import Cursor, NotACall, Steps
from ...parsing.text.grammar import Opener, beginnings
from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import between
from ..prompt.tool_results import Write, between_tags
from ..prompt.tools_json import function
from ..syntax.bare_invoke import NO_INVOKE
from ..syntax.json import Json
from ..syntax.openers import fork, ignored, opener, shared
from ..syntax.slots import Slots
from .glm import TOOL_CALL

_HY3, _HY4 = ":opensource", ":6124c78e"
_PUBLISHED = (_HY3, _HY4)
_MOST_SUFFIXES = 2  # others in one answer: a checkpoint has one, and patterns are made for each

_MARKUP = Markup(
    reasoning=tuple((f"<think{suffix}>", f"</think{suffix}>") for suffix in _PUBLISHED),
    stops=(*(f"<tool_responses{suffix}>" for suffix in _PUBLISHED), "<tool_responses>"),
    tags=("tool_sep[>:]",),
)


@functools.lru_cache(maxsize=32)
def _slots(suffix: str, separator: str = "<tool_sep>") -> Slots:
    """As GLM's, a wrapper around all calls and perhaps a separator behind the name; `suffix` ends each tag's name."""
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
    yield from _slots(suffix)(c)


_SUFFIX = r"[A-Za-z0-9_\-]{%d,32}"
_SUFFIXED = tuple(
    Opener(
        pattern=f"<{tag}:{_SUFFIX % 1}>",
        partial=f"{beginnings('<' + tag)}(?:(?<={tag[-4:]}):{_SUFFIX % 0})?",
        body=_suffixed,
        consume=tag == "tool_calls",
    )
    for tag in ("tool_calls", "tool_call")  # the second: without the wrapper
)
_LIST = Json(open="<tool_calls>[", between=", ", close="]</tool_calls>")
_plain = _slots("")
_OPENERS = (
    *_SUFFIXED,
    shared(_plain.trigger, _plain, NO_INVOKE),
    TOOL_CALL,  # without the wrapper
)


def _results(suffix: str) -> Write:
    return between_tags(
        f"<tool_response{suffix}>\n",
        f"\n</tool_response{suffix}>",
        before=f"<tool_responses{suffix}>\n",
        after=f"\n</tool_responses{suffix}>",
    )


_PROMPT = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For function call returns, you should first print <tool_calls%(suffix)s>
For each function call, you should return object like:
<tool_call%(suffix)s>{function-name}%(separator)s
<arg_key%(suffix)s>{arg-key-1}</arg_key%(suffix)s>
<arg_value%(suffix)s>{arg-value-1}</arg_value%(suffix)s>
<arg_key%(suffix)s>{arg-key-2}</arg_key%(suffix)s>
<arg_value%(suffix)s>{arg-value-2}</arg_value%(suffix)s>
...
</tool_call%(suffix)s>
At the end of function call returns, you should print </tool_calls%(suffix)s>"""

# https://huggingface.co/tencent/Hy3-preview (llama.cpp: models/templates/tencent-Hy3.jinja)
HY_V3 = Family(
    name="hy_v3",
    about="as `glm45`, with `<tool_sep>` behind the name, within `<tool_calls>`, a suffix in each tag: Hunyuan 3",
    models={"hy3": "[vllm] hy_v3"},
    calls=_slots(_HY3),
    auto_openers=_OPENERS,
    markup=_MARKUP,
    thoughts=between((f"<think{_HY3}>", f"</think{_HY3}>")),
    prompt=_PROMPT % {"suffix": _HY3, "separator": f"<tool_sep{_HY3}>"},
    tool=function,
    results=_results(_HY3),
    answer=f"the calls between {_slots(_HY3).trigger} and {_slots(_HY3).closers[0]}",
    special_tokens=True,
)

# https://huggingface.co/tencent/Hy4-preview. The calls are as vLLM's parser reads them; that the tools and the results
# are laid out as Hy3's template has them is not established from a source.
HY_V4 = Family(
    name="hy_v4",
    about="as `hy_v3`, without the separator: Hunyuan 4",
    models={"hy4": "[vllm] hy_v4"},
    calls=_slots(_HY4, ""),
    auto_openers=_OPENERS,
    markup=_MARKUP,
    thoughts=between((f"<think{_HY4}>", f"</think{_HY4}>")),
    prompt=_PROMPT % {"suffix": _HY4, "separator": ""},
    tool=function,
    results=_results(_HY4),
    answer=f"the calls between {_slots(_HY4).trigger} and {_slots(_HY4).closers[0]}",
    special_tokens=True,
)

# https://huggingface.co/tencent/Hunyuan-A13B-Instruct (vLLM: examples/tool_chat_template_hunyuan_a13b.jinja)
HUNYUAN = Family(
    name="hunyuan",
    about="a JSON list within `<tool_calls>` tags: Hunyuan A13B",
    models={"hunyuan": "[vllm] hunyuan_a13b"},
    calls=_LIST,
    auto_openers=(),
    own_openers=(
        opener(_LIST.marker, fork((r"<", _plain), (r"", _LIST))),  # one name stands for both in the engines
        *_SUFFIXED,
        TOOL_CALL,
        ignored("<answer>"),
        ignored("</answer>"),
    ),
    fallback=reading.BARE_JSON,
    markup=_MARKUP,
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

FAMILIES = (HUNYUAN, HY_V3, HY_V4)
