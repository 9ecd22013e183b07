"""Arguments of the types that the schema asks for, and names that mean an offered tool, end to end."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.helpers.driven import Driven
from tests.helpers.stream_rules import check_stream, check_whole
from tests.response.streams import chunk, completion
from tests.response.streams import stream as stream_of
from toolcall_middleware.settings import Settings

PARAMETERS = {
    "type": "object",
    "properties": {"days": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
}
NAMES = ("get_weather", "clock")
MODES = pytest.mark.parametrize("mode", ["prompt", "native"])
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def called(
    name: str,
    arguments: str,
    *,
    mode: str = "prompt",
    stream: bool = False,
    names: tuple[str, ...] = NAMES,
    **set_: Any,
) -> tuple[Any, str]:
    """The choice that a client gets for a call that the model writes so; and `x-toolcall`."""
    tools = [{"type": "function", "function": {"name": one, "parameters": PARAMETERS}} for one in names]
    exchange = Driven(Settings(mode=mode, format="hermes", **set_))
    messages = [{"role": "user", "content": "Hi"}]
    exchange.on_request(json.dumps({"model": "m", "messages": messages, "tools": tools, "stream": stream}).encode())
    said: dict[str, Any] = {"content": f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'}
    if mode == "native":
        function = {"name": name, "arguments": arguments}
        said = {"content": None, "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    if stream:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if mode == "native":
            deltas.append(
                {**said, "tool_calls": [{**said["tool_calls"][0], "function": {"name": name, "arguments": ""}}]}
            )
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in arguments]
        else:
            deltas += [{"content": piece} for piece in said["content"]]
        data = stream_of(*map(chunk, deltas), chunk({}, "stop"))
        return check_stream(exchange.streams(data), own_ids=False).only, ""
    reply = exchange.answers(completion(said))
    return check_whole(reply.body, own_ids=False).only, (reply.headers or {})["x-toolcall"]


@MODES
@STREAMS
def test_values_get_the_types_of_the_schema(mode: str, stream: bool) -> None:
    choice, told = called("clock", '{"days": "2", "tags": "[\\"a\\"]"}', mode=mode, stream=stream)
    assert [call.arguments for call in choice.calls] == ['{"days": 2, "tags": ["a"]}']
    if not stream:
        assert "; coerced=1" in told


@MODES
@STREAMS
def test_values_stay_as_they_are_where_that_is_switched_off(mode: str, stream: bool) -> None:
    written = '{"days": "2", "tags": "[\\"a\\"]"}'
    choice, told = called("clock", written, mode=mode, stream=stream, coerce_arguments=False)
    assert [call.arguments for call in choice.calls] == [written]
    assert "coerced" not in told


@STREAMS
def test_a_value_is_coerced_before_it_is_checked(stream: bool) -> None:
    choice, _ = called("clock", '{"days": "2"}', stream=stream, validate_arguments="error")
    assert choice.calls[0].parsed == {"days": 2}


SPELLINGS = (
    "functions.get_weather",
    "get-weather",
    "getWeather",
    "GET_WEATHER",
    "default_api.get_weather",
    "Get Weather",
    "get_weather.get_weather",
    "get_weather<|channel|>commentary",
    "functions.get_weather <|constrain|>json",
)


@MODES
@STREAMS
@pytest.mark.parametrize("written", SPELLINGS)
def test_a_name_that_means_one_offered_tool_calls_it(written: str, mode: str, stream: bool) -> None:
    choice, told = called(written, '{"days": 2}', mode=mode, stream=stream)
    assert [(call.name, call.arguments) for call in choice.calls] == [("get_weather", '{"days": 2}')]
    if not stream:
        assert "; renamed=1" in told


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("getWeather", ("get_weather", "get-weather")),  # of two, neither
        ("weather", NAMES),
        ("get_weather_now", NAMES),
        ("functions.", NAMES),
        ("weather<|channel|>commentary", NAMES),
        ("<|channel|>commentary", NAMES),
    ],
)
@STREAMS
def test_a_name_that_means_none_or_several_is_unknown(written: str, names: tuple[str, ...], stream: bool) -> None:
    choice, _ = called(written, "{}", names=names, stream=stream)
    assert not choice.calls
    assert written in choice.content


def test_an_offered_name_is_never_another() -> None:
    choice, told = called("get-weather", "{}", names=("get_weather", "get-weather"))
    assert [call.name for call in choice.calls] == ["get-weather"]
    assert "renamed" not in told


@MODES
@STREAMS
def test_names_stay_as_they_are_where_that_is_switched_off(mode: str, stream: bool) -> None:
    choice, _ = called("getWeather", "{}", mode=mode, stream=stream, repair_names=False)
    assert not choice.calls
    assert re.search("getWeather", choice.content)
