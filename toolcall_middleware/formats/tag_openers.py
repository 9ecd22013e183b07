"""How the calls of families begin that write them in tags.

Sources: the families' chat templates and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re

from ..parsing.calls.harmony_messages import Thought
from ..parsing.calls.nested_xml_calls import NestedCalls
from ..parsing.text.grammar import Opener, beginnings
from . import tags
from .json_openers import hermes, jamba
from .opening import fork, json_calls, markup, opener, tagged

_functions = tagged(tags.QWEN3_CODER)
QWEN3_CODER = (
    opener("<tool_call>", _functions),
    opener("<function=", _functions, consume=False),  # the opening <tool_call> is often missing
)
SEED_OSS = (opener("<seed:tool_call>", tagged(tags.SEED_OSS)),)
MINICPM5 = tuple(opener(f"<function{space}name=", tagged(tags.MINICPM5), consume=False) for space in (" ", "", "Ġ"))
MINIMAX = (opener("<minimax:tool_call>", tagged(tags.MINIMAX)),)
step3 = tagged(tags.STEP3)
STEP3 = (opener("<｜tool_calls_begin｜>", step3),)
DEEPSEEK_V32 = (
    *(opener(f"<{wrapper}>", tagged(syntax), special=True) for wrapper, syntax in tags.DSML.items()),
    # Without the wrapper around the calls.
    opener("<｜DSML｜invoke name=", tagged(tags.DSML["｜DSML｜function_calls"]), consume=False, special=True),
)
K3_THOUGHT = ("<|open|>think<|sep|>", "<|close|>think<|sep|>")
_K3_ANSWER = "<|open|>response<|sep|>"
KIMI_K3 = (
    opener("<|open|>tools<|sep|>", tagged(tags.KIMI_K3)),
    opener(K3_THOUGHT[0], lambda sink: Thought(sink, K3_THOUGHT[1], _K3_ANSWER)),
    *map(markup, (_K3_ANSWER, "<|close|>response<|sep|>", "<|close|>message<|sep|>")),
)
_GCML = "｜GCML｜"  # DeepSeek's tags by another name
GIGACHAT35 = (
    opener(f"<{_GCML}tool_calls>", tagged(tags.GCML)),
    opener(f"<{_GCML}invoke name=", tagged(tags.GCML), consume=False),
    markup("<|message_sep|>"),
)
DOTS = (
    opener(
        "<dots_function_call>",
        fork((r"[{\[`]", json_calls(close=("</dots_function_call>",))), (r"<", tagged(tags.DOTS))),
    ),
)
SOLAR_OPEN2 = (opener("<|tool_call:start|>", tagged(tags.SOLAR_OPEN2), consume=False),)
_IFM, _IFM_ALL = "<ifm|tool_call>", "<ifm|tool_calls>"
_k2_horizon = tagged(tags.K2_HORIZON)
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
    opener(_IFM_ALL, _k2_horizon),
    opener(_IFM, _k2_horizon, consume=False),  # without the wrapper
)
MIROTHINKER = (opener("<use_mcp_tool>", tagged(tags.MIROTHINKER)),)
_M3 = "]<]minimax[>["
MINIMAX_M3 = (opener(f"{_M3}<tool_call>", lambda sink: NestedCalls(sink, _M3, "tool_call")),)
_hy_v3 = tagged(tags.HY_V3)
HY_V3_OPEN = opener("<tool_calls:opensource>", tagged(tags.HY_V3_OPEN))
HY_V3 = (
    HY_V3_OPEN,
    opener("<tool_calls>", _hy_v3),
    opener("<tool_call>", tagged(tags.GLM)),  # without the wrapper
)
# A13B writes JSON there, its successors tags; one name stands for both in the engines.
TOOL_CALLS = opener("<tool_calls>", fork((r"<", _hy_v3), (r"", jamba), undecided=""))
HUNYUAN = (TOOL_CALLS, HY_V3_OPEN, HY_V3[2], markup("<answer>"), markup("</answer>"))
_glm = tagged(tags.GLM)
GLM = (opener("<tool_call>", _glm),)
LONGCAT = (
    opener(
        "<longcat_tool_call>",
        fork(
            (r"[{\[`\"']", json_calls(close=("</longcat_tool_call>",))),
            (r"\w", tagged(tags.LONGCAT)),  # since the models of 2026
        ),
    ),
)

# Three families share `<tool_call>`. (Functionary's and Llama 3.1's `<function=f>{…}` the reader of tags knows too.)
TOOL_CALL = (
    opener("<tool_call>", fork((r"[{\[`\"']", hermes), (r"<", _functions), (r"\w", _glm))),
    QWEN3_CODER[1],
)
