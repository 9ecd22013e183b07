"""Families that write calls as Python.

    [lookup(city="Paris", days=2), clock()]

Strings are written with escapes, numbers as they are spelled, other values as Python has them (Olmo: as JSON has them).
What is no identifier can be neither a name nor an argument's; and since a reader that forgives unescaped quotes may
take a right one for one, no key of a dict holds quotes, and lists and dicts are read back. A turn with a call that
cannot be written, or does not come back, is written in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..model import Tool, ToolCall
from ..parsing.text.grammar import Opener
from . import openers, reading
from .family import Family
from .prompt.escaping import as_data, describe, dump_indented
from .prompt.tool_results import tagged
from .syntax.round_trip import comes_back

_NAME = re.compile(r"[A-Za-z_][\w.\-/:]{0,255}")
_KEY = re.compile(r"[A-Za-z_]\w{0,255}")
_DICT_KEY = re.compile(r"[^\"'\\]{0,200}")
_PYTHON = {True: "True", False: "False", None: "None"}
_JSON = {True: "true", False: "false", None: "null"}


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_decode = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse).decode


def _double(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _single(text: str) -> str:
    return "'" + _double(text)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


class _Writer:
    """Writes the calls of one turn, or None."""

    def __init__(
        self,
        opening: str,
        closing: str,
        openers: tuple[Opener, ...],
        *,
        between: str = ", ",
        words: dict[bool | None, str] = _PYTHON,
        quote: Callable[[str], str] = _double,
    ) -> None:
        self.opening = opening
        self.closing = closing
        self.openers = openers
        self.between = between
        self.words = words
        self.quote = quote

    def __call__(self, calls: Sequence[ToolCall]) -> str | None:
        written = [self.call(call) for call in calls]
        found = [text for text in written if text is not None]
        return self.opening + self.between.join(found) + self.closing if len(found) == len(calls) else None

    def call(self, call: ToolCall) -> str | None:
        if not _NAME.fullmatch(call.name):
            return None
        try:
            arguments = _decode(call.arguments.strip() or "{}")
            if not isinstance(arguments, dict) or not all(map(_KEY.fullmatch, arguments)):
                return None
            values = [f"{key}={self.value(value)}" for key, value in arguments.items()]
            text = f"{call.name}({', '.join(values)})"
            text.encode()  # half a surrogate pair, which JSON can escape and Python text cannot hold
        except (ValueError, RecursionError):
            return None
        if not any(isinstance(value, list | dict) for value in arguments.values()):
            return text
        return text if comes_back(f"{self.opening}{text}{self.closing}", call, self.openers) else None

    def value(self, value: Any, quote: Callable[[str], str] | None = None) -> str:
        match value:
            case _Number():
                return str(value)
            case str():
                return (quote or self.quote)(value)
            case bool() | None:
                return self.words[value]
            case list():
                return f"[{', '.join(self.value(item, _double) for item in value)}]"
        if not all(map(_DICT_KEY.fullmatch, value)):
            raise ValueError("a key of a dict that looks like more than one string")
        return f"{{{', '.join(f'{_double(key)}: {self.value(item, _double)}' for key, item in value.items())}}}"


_FORM = "[func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]"
_pythonic = (*openers.PYTHONIC, reading.WRAPPED_JSON, reading.BARE_JSON[0])
_llama4 = (*openers.LLAMA4, reading.WRAPPED_JSON, reading.BARE_JSON[0])
_lfm2 = (*openers.LFM2, *reading.ANY_JSON)
_olmo3 = (*openers.OLMO3, *reading.ANY_JSON)


def _indented(tool: Tool) -> str:
    return as_data(dump_indented(describe(tool), indent=2))


# https://ai.google.dev/gemma/docs/capabilities/function-calling, near to what Llama 3.2 was shown
# (https://github.com/meta-llama/llama-models/blob/main/models/llama3_2/text_prompt_format.md)
PYTHONIC = Family(
    name="pythonic",
    about="a bare Python list of calls: Llama 3.2 1B and 3B, ToolACE, Gemma 3",
    openers=_pythonic,
    prompt=f"""\
You have access to functions. If you decide to invoke any of the function(s), you MUST put it in the format of
{_FORM}

You SHOULD NOT include any other text in the response if you call a function.

[
{{tools}}
]""",
    tool=_indented,
    between=",\n",
    write=_Writer("[", "]", _pythonic),
    answer="the function call in that format",
)

# https://www.llama.com/docs/model-cards-and-prompt-formats/llama4/
# (vLLM: examples/tool_chat_template_llama4_pythonic.jinja)
LLAMA4_PYTHONIC = Family(
    name="llama4_pythonic",
    about="a Python list of calls, perhaps between `<|python_start|>` and `<|python_end|>`: Llama 4",
    openers=_llama4,
    prompt="""\
You can answer general questions using your internal knowledge OR invoke functions when necessary. Follow these strict \
guidelines:

1. FUNCTION CALLS:
- ONLY use functions that are EXPLICITLY listed in the function list below
- If ALL required parameters are present AND the query EXACTLY matches a listed function's purpose: output ONLY the \
function call(s)
- Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]
Examples:
CORRECT: [get_weather(location="Vancouver"), calculate_route(start="Boston", end="New York")] <- Only if get_weather \
and calculate_route are in function list
INCORRECT: get_weather(location="New York")
INCORRECT: Let me check the weather: [get_weather(location="New York")]

2. RESPONSE RULES:
- For pure function requests matching a listed function: ONLY output the function call(s)
- For knowledge questions: ONLY output text
- For missing parameters: ONLY request the specific missing parameters
- NEVER combine text and function calls in the same response

3. TOOL RESPONSE HANDLING:
- When receiving tool responses: provide concise, natural language responses
- Don't repeat tool response verbatim

Here is a list of functions in JSON format that you can invoke:
[
{tools}
]""",
    tool=_indented,
    between=",\n",
    write=_Writer("[", "]", _llama4),
    answer="the function call in that format",
    special_tokens=True,
)

# https://huggingface.co/LiquidAI/LFM2-1.2B ("Tool use")
LFM2 = Family(
    name="lfm2",
    about="a Python list of calls between `<|tool_call_start|>` and `<|tool_call_end|>`: LFM2",
    openers=_lfm2,
    prompt="""\
List of tools: <|tool_list_start|>[{tools}]<|tool_list_end|>

To call tools, answer with a Python list of calls between <|tool_call_start|> and <|tool_call_end|>, for example:
{example}""",
    between=", ",
    write=_Writer("<|tool_call_start|>[", "]<|tool_call_end|>", _lfm2),
    results=tagged("<|tool_response_start|>", "<|tool_response_end|>", between=""),
    answer="the list of calls between <|tool_call_start|> and <|tool_call_end|>",
    noun="tool",
    special_tokens=True,
)

# https://huggingface.co/allenai/Olmo-3-7B-Instruct (vLLM: examples/tool_chat_template_olmo3.jinja)
OLMO3 = Family(
    name="olmo3",
    about="Python calls, one a line, within `<function_calls>`: Olmo 3",
    openers=_olmo3,
    prompt="""\
You have access to the following functions. To call functions, respond with a pythonic function call wrapped in \
<function_calls></function_calls> XML tags.

For example, to call a function named 'get_weather' with parameters city='New York' and units='celsius', respond with:
<function_calls>
get_weather(city='New York', units='celsius')
</function_calls>

You can call multiple functions by putting each call on a new line within the tags:
<function_calls>
function1(param1='value1')
function2(param2='value2')
</function_calls>

Here are the available functions:
<functions>
{tools}
</functions>""",
    write=_Writer("<function_calls>\n", "\n</function_calls>", _olmo3, between="\n", words=_JSON, quote=_single),
    answer="the call within <function_calls></function_calls> tags",
)
