"""What random exchanges have found, each as the text that showed it."""

from __future__ import annotations

import json

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Reasoning, Text, joined

TOOLS = ToolSet.of([Tool("f")])


def test_half_a_surrogate_pair_in_markup_is_text() -> None:
    parser = registry.get("auto").parser(TOOLS, ParserOptions())
    text = '```json\n{"tool_cal\ud800ls": [{"name": "f", "arguments": {}}]}\n```'
    events = [*parser.feed(text), *parser.finish()]
    assert "".join(event.text for event in events if isinstance(event, Text)) == text


def test_half_a_surrogate_pair_in_a_name_is_no_error() -> None:
    parser = registry.get("hermes").parser(TOOLS, ParserOptions())
    text = '<tool_call>{"na\ud800me": "f", "name": "f", "arguments": "{\\"x\\": \\"\ud800\\"}"}</tool_call>'
    events = [*parser.feed(text), *parser.finish()]
    assert [event.name for event in events if isinstance(event, CallStart)] == ["f"]


@pytest.mark.parametrize(
    "text", ['<|tools_prefix|>[{"": {"x": 1}}]<|tools_suffix|>', '<tool_call>{"name": ""}</tool_call>']
)
def test_a_call_without_a_name_is_not_forwarded(text: str) -> None:
    parser = registry.get("auto").parser(TOOLS, ParserOptions(unknown_tool="forward"))
    events = [*parser.feed(text), *parser.finish()]
    assert not [event for event in events if isinstance(event, CallStart)]
    assert "".join(event.text for event in events if isinstance(event, Text)) == text


@pytest.mark.parametrize(
    "text",
    [
        # A key that does not end is given up after so many characters, and what is behind them is text again.
        '<tool_calls>[{"name": "f"\'' + "a key <b> " * 100 + "]</tool_calls>",
        # A slash that begins no comment, and then something that could be a key.
        '<tool_calls>[{"name": "f", "arguments": {"a": 1 /tool_call> x',
        '<minimax:tool_call><invokename="f"><parametername="x">1</parameter></invoke></minimax:tool_call>',
    ],
)
def test_it_is_read_the_same_in_one_piece(text: str) -> None:
    for fmt in ("auto", "jamba", "minimax_m2"):
        parser = registry.get(fmt).parser(TOOLS, ParserOptions())
        whole = [*parser.feed(text), *parser.finish()]
        parser = registry.get(fmt).parser(TOOLS, ParserOptions())
        cut = [event for char in text for event in parser.feed(char)] + parser.finish()
        assert said(cut) == said(whole)


@pytest.mark.parametrize("behind", ["  so be it", "\t\n x", "  ", '  "', " \\n"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_the_text_behind_encoded_arguments_is_no_part_of_them_wherever_it_is_cut(quote: str, behind: str) -> None:
    inside = '{"x": 1}' if quote == "'" else r"{\"x\": 1}"
    text = f'<tool_call>{{"name": "f", "arguments": {quote}{inside}\n{behind}{quote}}}</tool_call>'
    options = ParserOptions(keep_raw=True, keep_arguments=True)

    def read(pieces: list[str]) -> list[Event]:
        parser = registry.get("hermes").parser(TOOLS, options)
        return joined([*(event for piece in pieces for event in parser.feed(piece)), *parser.finish()])

    whole = read([text])
    assert [json.loads(event.text) for event in whole if isinstance(event, CallArgs)] == [{"x": 1}]
    for at in range(1, len(text)):
        assert read([text[:at], text[at:]]) == whole, at


def said(events: list[Event]) -> tuple[str, str, int]:
    text = "".join(event.text for event in events if isinstance(event, Text))
    arguments = "".join(event.text for event in events if isinstance(event, CallArgs))
    return text, arguments, sum(isinstance(event, CallStart) for event in events)


LOST = {
    # The name ends too soon, so the call is of an unknown tool; what follows is no JSON, up to the list's end.
    "hunyuan": '<tool_calls>[{"name": "f", "arguments": {}}, {"name": "g"h", "arguments": {"x": 1}}]</tool_calls>',
    # Nor are these arguments.
    "deepseek_v3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>\n"
        '<｜tool▁call▁begin｜>function<｜tool▁sep｜>g> h\n```json\n{"x": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_all_of_a_refused_call_that_breaks_off_comes_out_as_text(name: str) -> None:
    text = LOST[name]
    for pieces in ([text], list(text)):
        parser = registry.get(name).parser(TOOLS, ParserOptions())
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
        shown, _, calls = said(events)
        assert calls == 1
        begin = text.index('"g"h"' if name == "hunyuan" else "g> h")
        assert text[begin : text.index("1}") + 2] in shown


def test_white_space_before_a_call_at_the_end_of_the_text_stays_before_it() -> None:
    parser = registry.get("glm45").parser(TOOLS, ParserOptions(keep_raw=True))
    events = [*parser.feed("<tool_call>f\n</tool_call>\n<tool_call>f"), *parser.finish()]
    assert [event.raw for event in events if isinstance(event, CallEnd)] == [
        "<tool_call>f\n</tool_call>",
        "\n<tool_call>f",
    ]
    assert said(events)[0] == ""


def test_white_space_between_calls_and_what_is_none_is_text_however_it_is_cut() -> None:
    mark = "]<]minimax[>["
    text = f'{mark}<tool_call>\n{mark}<invoke name="f">{mark}</invoke>\n]<]minimax x'
    for pieces in ([text], list(text), [text[:-9], text[-9:]]):
        parser = registry.get("minimax_m3").parser(TOOLS, ParserOptions())
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
        assert said(events) == ("\n]<]minimax x", "{}", 1)


def test_text_behind_a_fenced_call_is_no_part_of_the_call_as_written() -> None:
    parser = registry.get("glm47").parser(TOOLS, ParserOptions(keep_raw=True))
    text = '```json\n{"tool_calls": [{"name": "f", "arguments": {"x"\u2028[]}}]}\n```'
    events = [*parser.feed(text), *parser.finish()]
    raw = "".join(event.raw for event in events if isinstance(event, CallEnd))
    assert raw + said(events)[0] == text


@pytest.mark.parametrize("behind", ['{"nam rain falls in Paris, and goes on', '{"name":# rain falls in Paris, and'])
@pytest.mark.parametrize("name", ["hunyuan", "nemotron", "auto"])
def test_what_is_no_half_call_behind_a_call_of_a_list_is_text(name: str, behind: str) -> None:
    mark = "<TOOLCALL>" if name == "nemotron" else "<tool_calls>"
    text = mark + '[{"name": "f", "arguments": {}}, ' + behind
    for pieces in ([text], list(text), [text[:-30], text[-30:]]):
        parser = registry.get(name).parser(TOOLS, ParserOptions())
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
        assert said(events) == (f", {behind}", "{}", 1)
        for end in range(text.index(", {"), text.index(" rain")):
            parser = registry.get(name).parser(TOOLS, ParserOptions())
            half = [*parser.feed(text[:end]), *parser.finish(cut=True)]
            assert said(half) == ("", "{}", 1), text[:end]


def test_a_marker_that_has_left_as_text_takes_nothing_with_it_at_the_end() -> None:
    text = '<tool_calls>[{"name": "g "rain" falls": [{"name":#'
    for name in ("hunyuan", "auto"):
        for pieces in ([text], list(text)):
            parser = registry.get(name).parser(TOOLS, ParserOptions())
            events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish(cut=True)
            assert said(events) == (text, "", 0)


def test_a_list_of_calls_in_an_object_that_is_a_call_itself_holds_none() -> None:
    text = '{"name": "f", "arguments": {"a": 1}, "tool_calls": [{"name": "f", "arguments": {}}]}'
    for pieces in ([text], list(text)):
        parser = registry.get("json").parser(TOOLS, ParserOptions())
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
        assert said(events) == ("", '{"a": 1}', 1)
        assert isinstance(events[-1], CallEnd)


@pytest.mark.parametrize("behind", ['{"id": "1", "a b', '{"id": 1, "name":#'])
def test_a_key_that_no_call_has_is_text_wherever_it_stands(behind: str) -> None:
    text = f'<tool_calls>[{{"name": "f", "arguments": {{}}}}, {behind}'
    for cut in (True, False):
        for pieces in ([text], list(text)):
            parser = registry.get("hunyuan").parser(TOOLS, ParserOptions())
            events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish(cut=cut)
            assert said(events) == (f", {behind}", "{}", 1)


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("behind", [",", ", ", ",\n  {", ', {"get-wea', ', {"f": {'])
def test_a_list_that_ends_behind_a_comma_is_markup(behind: str, *, cut: bool) -> None:
    text = '<|tools_prefix|>[{"f": {}}' + behind
    for pieces in ([text], list(text)):
        parser = registry.get("apertus").parser(TOOLS, ParserOptions())
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish(cut=cut)
        assert said(events)[0] == ""


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "arguments",
    ['{"city": [], "days": 1 <| "at": 2}', '{"city": <|tools_prefix|> 2}', '{"city": 1, "a</tool_call>": 2}'],
)
def test_a_react_call_whose_input_breaks_off_is_one_however_it_is_cut(arguments: str, size: int) -> None:
    text = f"Action: f\nAction Input: {arguments}"
    parser = registry.get("react").parser(TOOLS, ParserOptions())
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    events += parser.finish()
    assert [event.name for event in events if isinstance(event, CallStart)] == ["f"]


@pytest.mark.parametrize(
    ("name", "text", "calls", "shown"),
    [
        # A call directly behind the tag begins its line, whether or not the tag comes in the same piece.
        ("pythonic", "<think>[f(x=1)]", 1, ""),
        ("react", '<think>Action: f\nAction Input: {"x": 1}', 1, ""),
        ("tool_tags", "<think><f>\n<x>1</x>\n</f>", 1, ""),
        # A closing tag belongs to a call only directly behind it.
        ("auto", '<think><function=f>{"x": 1}</function>so</function> on', 1, "so</function> on"),
        ("minimax_m2", "<think>x</invoke> y", 0, "x</invoke> y"),
        # A message within a JSON document is no call.
        ("auto", '<think>as in {"a":{"tool_calls": [{"name": "f", "arguments": {}}]}}', 0, None),
    ],
)
def test_calls_in_thoughts_are_read_alike_however_they_are_cut(
    name: str, text: str, calls: int, shown: str | None
) -> None:
    whole: list[Event] = []
    for pieces in ([text], [text[:7], text[7:]], list(text)):
        parser = registry.get(name).parser(TOOLS, ParserOptions(parse_reasoning=True))
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
        assert sum(isinstance(event, CallStart) for event in events) == calls
        thought = "".join(event.text for event in events if isinstance(event, Reasoning) and not event.markup)
        assert thought == (text[7:] if shown is None else shown)
        whole = whole or joined(events)
        assert joined(events) == whole
