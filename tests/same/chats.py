"""Chat requests, and settings to ask them with; and whole answers to them."""

from __future__ import annotations

import json
from typing import Any

from .material import CLIENTS, FIND, HOSTILE, WEATHER, function, tool_sets


def _tools(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": function} for function in functions]


def _user(content: Any = "Weather in Paris?") -> dict[str, Any]:
    return {"role": "user", "content": content}


def _assistant(content: Any, *calls: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    made = {"role": "assistant", "content": content, **more}
    if calls:
        made["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments, call_id in calls
        ]
    return made


def _result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


_NAMED = {"type": "function", "function": {"name": "get_weather"}}
_HISTORY = [
    {"role": "system", "content": "You are kind."},
    _user(),
    _assistant(None, ("get_weather", '{"city": "Paris"}', "call_1"), ("find_all", "{}", "call_2")),
    _result("call_1", "18 degrees"),
    _result("call_2", '{"found": []}', is_error=True),
    _assistant("It is 18 degrees. Shall I go on?"),
    _user("Yes."),
]
_PARTS = [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]
_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def requests() -> dict[str, dict[str, Any]]:
    """Chat requests, by name; without `model`, which is `m`."""
    two = _tools([WEATHER, FIND])
    sets = tool_sets()
    made: dict[str, dict[str, Any]] = {
        "plain": {"messages": [_user()], "tools": two},
        "stream": {"messages": [_user()], "tools": two, "stream": True},
        "stream-usage": {
            "messages": [_user()],
            "tools": two,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        "usage-no-tools": {"messages": [_user()], "stream": True, "stream_options": {"include_usage": True}},
        "no-tools": {"messages": [_user()]},
        "empty-tools": {"messages": [_user()], "tools": [], "tool_choice": "auto"},
        "choice-none": {"messages": [_user()], "tools": two, "tool_choice": "none"},
        "required": {"messages": [_user()], "tools": two, "tool_choice": "required"},
        "required-stream": {"messages": [_user()], "tools": two, "tool_choice": "required", "stream": True},
        "named": {"messages": [_user()], "tools": two, "tool_choice": _NAMED},
        "named-lost": {
            "messages": [_user()],
            "tools": two,
            "tool_choice": {"type": "function", "function": {"name": "x"}},
        },
        "allowed": {
            "messages": [_user()],
            "tools": two,
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [_NAMED]}},
        },
        "single": {"messages": [_user()], "tools": two, "parallel_tool_calls": False},
        "strict": {"messages": [_user()], "tools": _tools(sets["strict"]), "tool_choice": "required"},
        "strict-auto": {"messages": [_user()], "tools": _tools([*sets["strict"], FIND])},
        "history": {"messages": _HISTORY, "tools": two},
        "history-no-tools": {"messages": _HISTORY},
        "history-last-result": {"messages": _HISTORY[:5], "tools": two},
        "history-system": {
            "messages": [
                {"role": "developer", "content": "One."},
                _user(),
                {"role": "system", "content": "Two."},
                _user("x"),
            ],
            "tools": two,
        },
        "history-reasoning": {
            "messages": [
                _user(),
                _assistant("Well.", ("get_weather", "{}", "call_1"), reasoning_content="Hm.", refusal=None, audio=None),
                _result("call_1", "18"),
                _assistant("<think>a</think>b", reasoning="Other."),
                _user("Go on."),
            ],
            "tools": two,
        },
        "history-parts": {
            "messages": [
                {"role": "system", "content": _PARTS},
                _user([*_PARTS, _IMAGE]),
                _assistant(_PARTS, ("get_weather", '{"city": "x"}', "call_1")),
                _result("call_1", _PARTS),
                _user(_PARTS),
            ],
            "tools": two,
        },
        "history-odd": {
            "messages": [
                _user("a"),
                _user("b"),
                _assistant("", ("unknown", "not json", "1"), ("get_weather", "", "2")),
                _result("2", {"an": ["object", 1.50, None]}),
                _result("1", [1, 2], name="unknown"),
                _assistant("c"),
                _assistant("d", ("find_all", '{"query": "雨"}', "3")),
                _result("3", HOSTILE),
            ],
            "tools": two,
        },
        "history-legacy": {
            "messages": [
                _user(),
                {"role": "assistant", "content": None, "function_call": {"name": "get_weather", "arguments": "{}"}},
                {"role": "function", "name": "get_weather", "content": "18"},
            ],
            "functions": [WEATHER, FIND],
            "function_call": "auto",
        },
        "legacy-named": {"messages": [_user()], "functions": [WEATHER], "function_call": {"name": "get_weather"}},
        "history-hostile": {
            "messages": [
                _user(HOSTILE),
                _assistant(HOSTILE),
                _user("x"),
                _assistant(None, ("get_weather", json.dumps({"city": HOSTILE}), "c")),
                _result("c", HOSTILE),
            ],
            "tools": _tools(sets["hostile"]) + two,
        },
        "missing-result": {"messages": [*_HISTORY[:4], _user("and?")], "tools": two},
        "lost-result": {"messages": [_user(), _result("call_9", "18")], "tools": two},
        "prefix": {"messages": [_user(), _assistant("The weather is")], "tools": two, "continue_final_message": True},
        "response-format": {"messages": [_user()], "tools": two, "response_format": {"type": "json_object"}},
        "all-fields": {
            "messages": [_user()],
            "tools": two,
            "temperature": 0.30,
            "top_p": 1.0,
            "n": 2,
            "stop": ["\n\n", "END"],
            "logprobs": True,
            "top_logprobs": 2,
            "seed": 12345678901234567890,
            "user": "é\u2028",
            "metadata": {"a": "b"},
            "max_completion_tokens": 100,
            "extra_body": {"x": [1, 2.0]},
            "logit_bias": {"1": -100},
        },
        "overrides": {
            "messages": [_user()],
            "tools": two,
            "toolcall": {"format": "qwen3_coder", "validate_arguments": "error"},
            "request_options": {"validate_tool_arguments": True},
        },
        "bad-overrides": {"messages": [_user()], "tools": two, "toolcall": {"mode": "x"}},
        "bad-messages": {"messages": "x", "tools": two},
        "bad-role": {"messages": [{"role": "robot", "content": "x"}], "tools": two},
        "bad-tools": {"messages": [_user()], "tools": [{"type": "function"}]},
        "bad-twice": {"messages": [_user()], "tools": _tools([WEATHER, WEATHER])},
        "bad-schema": {"messages": [_user()], "tools": _tools([function("x", type="array")])},
        "bad-choice": {"messages": [_user()], "tool_choice": "required"},
        "bad-temperature": {"messages": [_user()], "tools": two, "temperature": -1},
        "bad-max": {"messages": [_user()], "tools": two, "max_tokens": 0},
    }
    made |= {f"tools-{name}": {"messages": [_user()], "tools": _tools(functions)} for name, functions in sets.items()}
    for path in sorted(CLIENTS.glob("*.json")):
        request = json.loads(path.read_text("utf-8"))
        made[f"client-{path.stem}"] = request.get("body", request)
    return made


SETTINGS: dict[str, dict[str, Any]] = {
    "keep": {"messages": "keep"},
    "user": {"system_role": "user"},
    "user-keep": {"system_role": "user", "messages": "keep"},
    "never-parallel": {"parallel": "never"},
    "gateway": {"profile": "gateway"},
    "strict": {"profile": "strict"},
    **{
        f"constrain-{kind}": {"constrain": kind}
        for kind in ("off", "response_format", "structured_outputs", "structural_tag", "llama_cpp")
    },
    "special-tokens": {"special_tokens": "on"},
    "usage-count": {"usage": "count"},
    "usage-backend": {"usage": "backend"},
    "usage-off": {"usage": "off"},
    "drop": {"drop_params": "temperature,seed,user", "prose": "drop"},
    "no-retries": {"retries": 0},
    "validate": {"validate_arguments": "retry"},
    "reasoning": {"reasoning_field": "reasoning", "reasoning": "parse"},
    "limits": {"max_tools": 1, "max_result_bytes": 8, "max_tool_rounds": 1},
    "allowlist": {"allowlist": "get_*", "allowlist_mode": "enforce"},
    "extension": {"extension_field": "_toolcall", "arguments_as_object": True, "rewrite_ids": True},
}
FORMATS_OF_SETTINGS = ("auto", "json", "hermes", "harmony")

REFUSES_TOOLS = {
    "error": {
        "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }
}


def completion(text: str, *, calls: bool = False, reason: str = "stop") -> dict[str, Any]:
    """A backend's whole answer."""
    message = _assistant(text)
    if calls:
        message = _assistant(None, ("get_weather", '{"city": "Paris"}', "call_own"))
        reason = "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
