"""The same call again and again: the model is told, then it is ended. And the pattern of tools' names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.driven import Driven
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings

TOOL = {"type": "function", "function": {"name": "f", "description": "F."}}
USER = {"role": "user", "content": "Go."}


def turn(number: int, arguments: str = '{"a": 1}', result: Any = "nothing") -> list[dict[str, Any]]:
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
    ]


def sent(messages: list[dict[str, Any]], **set_: Any) -> str:
    body = {"model": "m", "messages": messages, "tools": [TOOL]}
    settings = Settings(**{"max_repeated_calls": 2, "mode": "native", **set_})
    return (Driven(settings).on_request(json.dumps(body).encode()) or b"").decode()


@pytest.mark.parametrize("mode", ["native", "prompt"])
@pytest.mark.parametrize("result", ["nothing", {"found": []}, [{"type": "text", "text": "nothing"}]])
def test_the_model_is_told_and_then_ended(mode: str, result: Any) -> None:
    one, two = [USER, *turn(1, result=result)], [USER, *turn(1, result=result), *turn(2, '{"a":1}', result)]
    assert "in a row" not in sent(one, mode=mode)
    assert "2 times in a row" in sent(two, mode=mode)
    with pytest.raises(ToolCallError, match="3 times in a row") as caught:
        sent([*two, *turn(3, result=result)], mode=mode)
    assert (caught.value.status, caught.value.headers["x-should-retry"]) == (422, "false")
    assert "in a row" not in sent([*two, *turn(3)[:1]], mode=mode)  # it has no result yet


@pytest.mark.parametrize(
    "messages",
    [
        [USER, *turn(1), *turn(2, '{"a": 2}'), *turn(3)],
        [USER, *turn(1), *turn(2, result="something"), *turn(3)],
        [USER, *turn(1), *turn(2), USER, *turn(3)],
        [USER, *turn(1), *turn(2), USER],
    ],
)
def test_other_calls_other_results_and_a_new_question_begin_anew(messages: list[dict[str, Any]]) -> None:
    assert "in a row" not in sent(messages)


def test_nothing_is_counted_unless_asked_for() -> None:
    assert "in a row" not in sent([USER, *(part for at in range(9) for part in turn(at))], max_repeated_calls=None)
    assert Settings(profile="gateway").max_repeated_calls == 3


@pytest.mark.parametrize(("name", "fits"), [("a-b_C1", True), ("a.b", False), ("ä", False)])
def test_names_match_the_operators_pattern(name: str, fits: bool) -> None:
    body = {"model": "m", "messages": [USER], "tools": [{"type": "function", "function": {"name": name}}]}
    raw = json.dumps(body).encode()
    assert Driven(Settings()).on_request(raw)
    if fits:
        assert Driven(Settings(profile="gateway")).on_request(raw)
        return
    with pytest.raises(ToolCallError, match="tool_name_pattern") as caught:
        Driven(Settings(profile="gateway")).on_request(raw)
    assert caught.value.param == "tools[0].function.name"
