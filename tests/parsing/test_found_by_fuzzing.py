"""What random exchanges have found, each as the text that showed it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event

from .streams import alike, read, text_in, thought_in

TOOLS = ToolSet.of([Tool("f")])
LISTED = '<tool_calls>[{"name": "f", "arguments": {}}'
MARK = "]<]minimax[>["
FORWARD: dict[str, Any] = {"unknown_tool": "forward"}


def events_of(name: str, text: str, *, cut: bool = False, **options: Any) -> list[Event]:
    """What a format's parser says of `text`, the same however it is cut."""
    return alike(lambda: registry.get(name).parser(TOOLS, ParserOptions(**options)), text, cut=cut)


def said(events: list[Event]) -> tuple[str, str, int]:
    """The text, the arguments, and the number of calls."""
    arguments = "".join(event.text for event in events if isinstance(event, CallArgs))
    return text_in(events), arguments, sum(isinstance(event, CallStart) for event in events)


# Formats, text, options, and what is said.
FOUND: list[tuple[str, str, dict[str, Any], tuple[str, str, int]]] = [
    # A call without a name is not forwarded.
    ("auto", '<|tools_prefix|>[{"": {"x": 1}}]<|tools_suffix|>', FORWARD, ('<|tools_prefix|>[{"": {"x": 1}}]<|tools_suffix|>', "", 0)),
    ("auto", '<tool_call>{"name": ""}</tool_call>', FORWARD, ('<tool_call>{"name": ""}</tool_call>', "", 0)),
    # White space between calls and text that is no call is text.
    ("minimax_m3", f'{MARK}<tool_call>\n{MARK}<invoke name="f">{MARK}</invoke>\n]<]minimax x', {}, ("\n]<]minimax x", "{}", 1)),
    # Much white space before the parenthesis of `print(…)` is text, once.
    ("tool_code", "```tool_code\nprint(f(x=1)" + " " * 600 + ")", {}, (" " * 600 + ")", '{"x": 1}', 1)),
    # White space before a call is looked through up to a limit.
    *(("hermes", f'<tool_call>{" " * size}{{"name": "f", "arguments": {{}}}}', {}, said) for size, said in (
        (256, ("", "{}", 1)), (257, (f'<tool_call>{" " * 257}{{"name": "f", "arguments": {{}}}}', "", 0)))),
    *(("pythonic", f"[f(x=1),{' ' * size}f()]", {}, said) for size, said in (
        (511, ("", '{"x": 1}{}', 2)), (512, (f",{' ' * 512}f()]", '{"x": 1}', 1)))),
    *(("deepseek_v31", f"<｜tool▁call▁begin｜>{before}f{after}<｜tool▁sep｜>{{}}<｜tool▁call▁end｜>", {}, said) for before, after, said in (
        (" " * 256, "", ("", "{}", 1)), ("", " " * 256, ("", "{}", 1)),
        ("", " " * 257, (f"<｜tool▁call▁begin｜>f{' ' * 257}<｜tool▁sep｜>{{}}<｜tool▁call▁end｜>", "", 0)),
        (" " * 257, "", (f"<｜tool▁call▁begin｜>{' ' * 257}f<｜tool▁sep｜>{{}}<｜tool▁call▁end｜>", "", 0)))),
    *(("hunyuan", f'{LISTED},{" " * size}{{"name": "f", "arguments": {{}}}}]</tool_calls>', {}, said) for size, said in (
        (256, ("", "{}{}", 2)), (257, (f',{" " * 257}{{"name": "f", "arguments": {{}}}}]</tool_calls>', "{}", 1)))),
    ("llama3_json", '{"name": "f", "parameters": {}};' + " " * 300 + '{"name": "f", "parameters": {}}', {}, (";" + " " * 300, "{}{}", 2)),
    ("auto", f"[{' ' * 300}f(x=1)]", {}, ("", '{"x": 1}', 1)),
    # An observation begins its line.
    ("react", 'Action: f\nAction Input: {"x": 1} Observation: x', {}, (" Observation: x", '{"x": 1}', 1)),
    ("react", 'Action: f\nAction Input: {"x": 1}\nObservation: x', {}, ("", '{"x": 1}', 1)),
    # Tags without a call between them are markup, and in prose a mention.
    ("minimax_m2", "<minimax:tool_call></minimax:tool_call>\n", {}, ("\n", "", 0)),
    ("minimax_m2", "<minimax:tool_call></minimax:tool_call> are the tags", {}, ("<minimax:tool_call></minimax:tool_call> are the tags", "", 0)),
    # A list of calls in an object that is a call itself holds none.
    ("json", '{"name": "f", "arguments": {"a": 1}, "tool_calls": [{"name": "f", "arguments": {}}]}', {}, ("", '{"a": 1}', 1)),
    # A marker that was emitted as text takes nothing with it at the end of the text.
    *((name, '<tool_calls>[{"name": "g "rain" falls": [{"name":#', {"cut": True}, ('<tool_calls>[{"name": "g "rain" falls": [{"name":#', "", 0))
      for name in ("hunyuan", "auto")),
    # A key that no call has is text at any place.
    *(("hunyuan", f"{LISTED}, {behind}", {"cut": cut}, (f", {behind}", "{}", 1))
      for behind in ('{"id": "1", "a b', '{"id": 1, "name":#') for cut in (True, False)),
    # A value is open where the text is cut off in the tag that may close all calls once more.
    *(("dots", f'<dots_function_call><invoke name="f"><parameter name="a"><parameter name="b">one</invoke></parameter></invoke></dots_function_call>{behind}', {"cut": cut}, ("", arguments, 1))
      for behind in ("</dot", "</dots_function_call>") for cut, arguments in ((True, '{"a": '), (False, '{"a": "<parameter name=\\"b\\">one</invoke></parameter>"}'))),
    # A list that ends after a comma is markup.
    *(("apertus", '<|tools_prefix|>[{"f": {}}' + behind, {"cut": cut}, ("", "{}", 1))
      for behind in (",", ", ", ",\n  {", ', {"get-wea') for cut in (True, False)),
    *(("apertus", '<|tools_prefix|>[{"f": {}}, {"f": {', {"cut": cut}, ("", "{}{", 2)) for cut in (True, False)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "options", "expected"), FOUND)
def test_it_is_read_so_however_it_is_cut(
    name: str, text: str, options: dict[str, Any], expected: tuple[str, str, int]
) -> None:
    assert said(events_of(name, text, **options)) == expected


@pytest.mark.parametrize(
    "text",
    [
        # A key that does not end is given up after so many characters, and the text after them is text again.
        '<tool_calls>[{"name": "f"\'' + "a key <b> " * 100 + "]</tool_calls>",
        # A slash that begins no comment, and then something that could be a key.
        '<tool_calls>[{"name": "f", "arguments": {"a": 1 /tool_call> x',
        '<minimax:tool_call><invokename="f"><parametername="x">1</parameter></invoke></minimax:tool_call>',
    ],
)
def test_it_is_read_the_same_however_it_is_cut(text: str) -> None:
    for name in ("auto", "jamba", "minimax_m2"):
        events_of(name, text)


def test_half_a_surrogate_pair_is_text_in_markup_and_no_error_in_a_name() -> None:
    text = '```json\n{"tool_cal\ud800ls": [{"name": "f", "arguments": {}}]}\n```'
    assert said(events_of("auto", text)) == (text, "", 0)
    text = '<tool_call>{"na\ud800me": "f", "name": "f", "arguments": "{\\"x\\": \\"\ud800\\"}"}</tool_call>'
    assert said(events_of("hermes", text))[2] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"role": "assistant", "content": %s, "tool_calls": [{"name": "f", "arguments": {}}]}',
        '{"tool_calls": [{"name": "f", "other": {"x": %s}}]}',
    ],
)
def test_what_is_beside_a_call_may_be_nested_deep(text: str) -> None:
    tools = ToolSet.of([Tool("f", parameters={"type": "object", "properties": {"x": {}}})])
    parser = registry.get("json").parser(tools, ParserOptions())
    assert said(read(parser, [text % ("[" * 50_000 + "]" * 50_000)])) == ("", "{}", 1)


@pytest.mark.parametrize("behind", ["  so be it", "\t\n x", "  ", '  "', " \\n"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_the_text_behind_encoded_arguments_is_no_part_of_them(quote: str, behind: str) -> None:
    inside = '{"x": 1}' if quote == "'" else r"{\"x\": 1}"
    text = f'<tool_call>{{"name": "f", "arguments": {quote}{inside}\n{behind}{quote}}}</tool_call>'
    events = events_of("hermes", text, keep_raw=True, keep_arguments=True)
    assert json.loads(said(events)[1]) == {"x": 1}


@pytest.mark.parametrize(
    ("name", "text", "begin"),
    [
        # The name ends too soon, so the call is of an unknown tool; what follows is no JSON, up to the list's end.
        ("hunyuan", f'{LISTED}, {{"name": "g"h", "arguments": {{"x": 1}}}}]</tool_calls>', '"g"h"'),
        # Nor are these arguments.
        (
            "deepseek_v3",
            (
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>\n"
                '<｜tool▁call▁begin｜>function<｜tool▁sep｜>g> h\n```json\n{"x": 1}\n```<｜tool▁call▁end｜>'
                "<｜tool▁calls▁end｜>"
            ),
            "g> h",
        ),
    ],
)
def test_all_of_a_refused_call_that_breaks_off_is_text(name: str, text: str, begin: str) -> None:
    shown, _, calls = said(events_of(name, text))
    assert calls == 1
    assert text[text.index(begin) : text.index("1}") + 2] in shown


def test_the_raw_call_holds_the_white_space_before_it_and_no_text_after_it() -> None:
    events = events_of("glm45", "<tool_call>f\n</tool_call>\n<tool_call>f", keep_raw=True)
    raw = [event.raw for event in events if isinstance(event, CallEnd)]
    assert raw == ["<tool_call>f\n</tool_call>", "\n<tool_call>f"]
    assert said(events)[0] == ""
    text = '```json\n{"tool_calls": [{"name": "f", "arguments": {"x"\u2028[]}}]}\n```'
    events = events_of("glm47", text, keep_raw=True)
    assert "".join(event.raw for event in events if isinstance(event, CallEnd)) + said(events)[0] == text


@pytest.mark.parametrize("behind", ['{"nam rain falls in Paris, and goes on', '{"name":# rain falls in Paris, and'])
@pytest.mark.parametrize("name", ["hunyuan", "nemotron", "auto"])
def test_what_is_no_half_call_behind_a_call_of_a_list_is_text(name: str, behind: str) -> None:
    text = (LISTED.replace("tool_calls", "TOOLCALL") if name == "nemotron" else LISTED) + f", {behind}"
    assert said(events_of(name, text)) == (f", {behind}", "{}", 1)
    for end in range(text.index(", {"), text.index(" rain")):
        assert said(events_of(name, text[:end], cut=True)) == ("", "{}", 1), text[:end]


@pytest.mark.parametrize(
    "arguments",
    ['{"city": [], "days": 1 <| "at": 2}', '{"city": <|tools_prefix|> 2}', '{"city": 1, "a</tool_call>": 2}'],
)
def test_a_react_call_whose_input_breaks_off_is_one(arguments: str) -> None:
    events = events_of("react", f"Action: f\nAction Input: {arguments}")
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
def test_calls_in_thoughts(name: str, text: str, calls: int, shown: str | None) -> None:
    events = events_of(name, text, parse_reasoning=True)
    assert said(events)[2] == calls
    assert thought_in(events) == (text[7:] if shown is None else shown)


@pytest.mark.parametrize("space", [" ", "\n", "\n\n"])
@pytest.mark.parametrize("parse_reasoning", [True, False])
@pytest.mark.parametrize("name", ["auto", "json", "hermes", "mistral_v11"])
def test_white_space_between_a_call_in_a_thought_and_what_follows(
    name: str, space: str, *, parse_reasoning: bool
) -> None:
    call = registry.get("hermes" if name == "auto" else name).render_calls([ToolCall("f", "{}")])
    for after in ("</tool_call>b", "</tool_calls></think>c", "<tool_response>", "</think>c"):
        events = events_of(name, f"<think>a{call}{space}{after}", parse_reasoning=parse_reasoning)
        assert said(events)[2] == parse_reasoning
