"""Arguments of the types that the schema asks for, and names that mean an offered tool, end to end."""

from __future__ import annotations

from typing import Any

from tests.helpers.answers import Case, calling, case, cases, check, own

PARAMETERS = {
    "type": "object",
    "properties": {"days": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
}
NAMES = ("get_weather", "clock")
MODES = ("prompt", "native")
TEXTS, TYPED = '{"days": "2", "tags": "[\\"a\\"]"}', '{"days": 2, "tags": ["a"]}'
TWO = '{"days": 2}'
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
ALIKE = ("get_weather", "get-weather")
NO_NAMES = ("weather", "get_weather_now", "functions.", "weather<|channel|>commentary", "<|channel|>commentary")


def called(name: str, arguments: str, *, mode: str = "prompt", names: tuple[str, ...] = NAMES, **given: Any) -> Any:
    """A case of a call that the model writes so, with tools of these names."""
    tools = [{"type": "function", "function": {"name": one, "parameters": PARAMETERS}} for one in names]
    text = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
    said = text if mode == "prompt" else calling(own(arguments, name))
    more = "".join(f", {key}" for key in given if key not in {"calls", "head"})
    return case(f"{name} {arguments} of {names}, {mode}{more}", said, asked={"tools": tools}, mode=mode, **given)


def unknown(name: str, **given: Any) -> Any:
    """A case of a name that means none of the tools, or several."""
    content = f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>'
    return called(name, "{}", calls=[], content=content, format="hermes", **given)


@cases(
    *(called("clock", TEXTS, mode=mode, calls=[("clock", TYPED)], head="; calls=1; coerced=1;") for mode in MODES),
    *(called("clock", TEXTS, mode=mode, calls=[("clock", TEXTS)], coerce_arguments=False) for mode in MODES),
    called("clock", '{"days": "2"}', calls=[("clock", TWO)], validate_arguments="error"),
    *(
        called(written, TWO, mode=mode, calls=[("get_weather", TWO)], head="; calls=1; renamed=1;")
        for written in SPELLINGS
        for mode in MODES
    ),
    unknown("getWeather", names=ALIKE),
    *map(unknown, NO_NAMES),
    called("get-weather", "{}", names=ALIKE, calls=[("get-weather", "{}")], head="; calls=1;"),
    unknown("getWeather", repair_names=False),
    called("getWeather", "{}", mode="native", calls=[], repair_names=False),
)
async def test_values_and_names_are_what_is_offered(one: Case) -> None:
    await check(one)
