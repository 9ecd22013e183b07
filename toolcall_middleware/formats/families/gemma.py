"""Google's Gemma: a notation of its own, with strings between two equal markers.

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from ...parsing.calls.fork import read_thought
from ...parsing.text.grammar import beginnings
from ..family import Family
from ..markup import Markup
from ..syntax import gemma
from ..syntax.gemma import Gemma, responses
from ..syntax.openers import opener, shared

_MARKUP = Markup(
    stops=("<start_of_turn>", "<start_function_response>", "<|tool_response>", "<|turn>"),
    ends=("<end_of_turn>", "<turn|>", "<eos>"),
    tags=(
        r"[a-z_]{1,32}\|>",  # <tool_call|>, <channel|>: Gemma 4's closing shape
        r"(?:start|end)_(?:function_\w+|of_turn)>",
        "escape>",
    ),
)

_function = Gemma(mark="<escape>", open="<start_function_call>", close="<end_function_call>")

# https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
FUNCTIONGEMMA = Family(
    name="functiongemma",
    about="`call:f{x:…}` between `<start_function_call>` and `<end_function_call>`: FunctionGemma",
    fine_tunes={"functiongemma": "[vllm] functiongemma"},
    calls=_function,
    own_openers=gemma.bare_calls(_function),
    markup=_MARKUP,
    # The first words are the template's; what follows them stands there without a space.
    prompt="You are a model that can do function calling with the following functions{tools}",
    tool=lambda tool: f"<start_function_declaration>{_function.declaration(tool)}<end_function_declaration>",
    between="",
    results=responses(_function, "<start_function_response>", "<end_function_response>"),
    answer="the function call",
    special_tokens=True,
)

_gemma4 = Gemma(mark='<|"|>', open="<|tool_call>", close="<tool_call|>", inner='"')
_GEMMA4_BARE = gemma.bare_calls(_gemma4)
_GEMMA4_OPENERS = (
    *_gemma4.openers,
    # A slip in the marker, with which the arguments are often JSON in parentheses.
    shared("<|tool_call|>", _gemma4, "call:", undecided=f"(?:{beginnings('call:')})?"),
    _GEMMA4_BARE[0],
    opener("<|channel>thought", lambda c: read_thought(c, "<channel|>")),
)

# https://huggingface.co/google/gemma-4-31B-it (llama.cpp: models/templates/gemma4.jinja); it does not say how to call.
# No structural tag: xgrammar has no style for this notation, and JSON in its place is not what the models write.
GEMMA4 = Family(
    name="gemma4",
    about="`call:f{x:…}` between `<|tool_call>` and `<tool_call|>`: Gemma 4",
    models={"gemma4": "[llama.cpp] gemma4"},
    calls=_gemma4,
    auto_openers=_GEMMA4_OPENERS,
    own_openers=_GEMMA4_BARE,
    markup=_MARKUP,
    prompt="""\
{tools}

To call a tool, answer in this form:
{example}""",
    tool=lambda tool: f"<|tool>{_gemma4.declaration(tool)}<tool|>",
    between="",
    results=responses(_gemma4, "<|tool_response>", "<tool_response|>"),
    answer="the tool call",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (FUNCTIONGEMMA, GEMMA4)
