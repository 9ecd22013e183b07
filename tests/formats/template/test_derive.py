"""A family derived from a chat template reads and writes what the template renders."""

from __future__ import annotations

import json

import pytest

from toolcall_middleware.errors import FormatError
from toolcall_middleware.formats import markup
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.prompt import escaping
from toolcall_middleware.formats.template import derive, render
from toolcall_middleware.formats.template.derive import Derived
from toolcall_middleware.formats.template.render import ChatTemplate
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import CallArgs

from ...parsing.streams import calls_in, read, text_in, thought_in
from . import templates

TOOLS = ToolSet.of(
    [
        Tool(
            "look_up", "", {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
        ),
        Tool("clock", "", {"type": "object", "properties": {}}),
    ]
)
CALLS = (ToolCall("look_up", '{"city": "Paris <b>", "days": 3}'), ToolCall("clock", '{"zone": "UTC"}'))


def derived(source: str) -> Derived:
    return derive.derive(ChatTemplate(source, {"eos_token": "<|im_end|>"}))


@pytest.fixture(scope="module")
def found() -> dict[str, Derived]:
    return {name: derived(source) for name, source in templates.READ.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", templates.READ)
def test_calls_of_a_form_that_no_family_has_are_read_and_written(name: str, found: dict[str, Derived]) -> None:
    one = found[name]
    assert one.family is not None, one.why
    assert one.like is None
    wanted = CALLS[: 1 if name == "one_call" else 2]
    text = "Well.\n" + one.family.render_calls(wanted)
    for pieces in ([text], list(text)):
        events = read(one.family.parser(TOOLS, ParserOptions()), pieces)
        assert [(call.name, json.loads(call.arguments)) for call in calls_in(events)] == [
            (call.name, json.loads(call.arguments)) for call in wanted
        ]
        assert all(call.complete and not call.repaired for call in calls_in(events))
        assert text_in(events).strip() == "Well."


@pytest.mark.slow
@pytest.mark.parametrize("name", templates.READ)
def test_everything_that_is_rendered_is_read_back(name: str, found: dict[str, Derived]) -> None:
    assert found[name].confidence in {"certain", "likely"}
    assert (found[name].read_back, found[name].lost) == (found[name].tried, ())


@pytest.mark.slow
def test_a_call_that_is_cut_stays_open(found: dict[str, Derived]) -> None:
    family = found["json"].family
    assert family is not None
    text = family.render_calls(CALLS[:1])
    events = read(family.parser(TOOLS, ParserOptions()), [text[: text.index("Par") + 3]], cut=True)
    assert [(call.complete, call.arguments) for call in calls_in(events)] == [(False, '{"city": "Par')]


@pytest.mark.slow
def test_arguments_stream_as_they_are_written(found: dict[str, Derived]) -> None:
    for name in ("json", "named", "tags", "python"):
        family = found[name].family
        assert family is not None
        text = family.render_calls(CALLS[:1])
        parser = family.parser(TOOLS, ParserOptions())
        before = [event for char in text[: text.index("ris")] for event in parser.feed(char)]
        written = "".join(event.text for event in before if isinstance(event, CallArgs))
        assert written.replace(" ", "").startswith('{"city":"P'), name


@pytest.mark.slow
def test_the_markers_of_turns_and_thoughts_are_told(found: dict[str, Derived]) -> None:
    family = found["json"].family
    assert family is not None
    assert family.markup.reasoning == (("<ponder>", "</ponder>"),)
    assert family.markup.ends == ("<|im_end|>",)
    assert found["json"].facts["results"] == "<output> … </output>"


@pytest.mark.slow
def test_the_prompt_is_in_the_templates_own_words(found: dict[str, Derived]) -> None:
    family = found["json"].family
    assert family is not None
    prompt = family.render_tools([Tool("f", "Does it.", {"type": "object", "properties": {}})], parallel=True)
    assert prompt.startswith("# Tools\n\n<tools>\n")
    assert '{"type": "function", "function": {"name": "f", "description": "Does it."' in prompt
    assert "Call a tool like this." in prompt
    assert (
        '<acme_call>{"tool": "TOOL_NAME", "input": {"ARGUMENT": "VALUE"}}</acme_call>' in prompt
    )  # the template shows no call: we do


@pytest.mark.slow
def test_no_result_can_hold_the_templates_markers(found: dict[str, Derived]) -> None:
    family = found["tags"].family
    assert family is not None
    markup.add(family.markup)
    assert "<acme_call name=" not in escaping.neutralise('<acme_call name="f">')
    assert "</acme_call>" not in escaping.neutralise("</acme_call>")


@pytest.mark.slow
def test_a_tag_with_attributes_is_a_marker_where_only_the_bare_tag_is_known() -> None:
    markup.add(markup.Markup(tags=("acme_call>",)))
    family = derived(templates.TAGS).family
    assert family is not None
    markup.add(family.markup)
    assert "<acme_call name=" not in escaping.neutralise('<acme_call name="f">')


@pytest.mark.slow
def test_a_template_that_writes_as_a_family_has_its_reader() -> None:
    one = derived(templates.HERMES)
    assert (one.like, one.confidence) == ("hermes", "certain")
    assert one.family is not None
    assert one.family.trigger == "<tool_call>"


# The recipient of a message and the call in it are both the tool's name, as in Muse Glimmer's template.
TWICE = (
    templates.each(
        "{{ '<|eom|><|start|>assistant' if not loop.first }} to={{ call.name }}<|message|>"
        '<atem:function_calls>\n<atem:invoke name="{{ call.name }}">\n{% for key, value in call.arguments | items %}'
        '<atem:parameter name="{{ key }}">{{ value if value is string else value | tojson }}</atem:parameter>\n'
        "{% endfor %}</atem:invoke>\n</atem:function_calls>"
    )
    .replace("<|im_start|>assistant\n", "<|start|>assistant")
    .replace("<ponder>\n", " to=self<|message|>")
    .replace("\n</ponder>\n", "<|eom|><|start|>assistant")
    .replace(
        "{{ message.content or '' }}", "{% if message.content %} to=user<|message|>{{ message.content }}{% endif %}"
    )
)


@pytest.mark.slow
def test_a_name_that_is_also_a_messages_recipient_is_found() -> None:
    one = derived(TWICE)
    assert one.family is not None, one.why
    assert (one.like, one.lost) == ("muse_glimmer", ())
    events = read(one.family.parser(TOOLS, ParserOptions()), [" to=user<|message|>Hello."])
    assert (text_in(events), thought_in(events)) == ("Hello.", "")


@pytest.mark.slow
def test_the_end_of_a_thought_before_calls_is_no_part_of_them() -> None:
    one = derived(templates.NAMED.replace("%}<|acme:call|>", "%}{{ '</think>' if loop.first }}<|acme:call|>"))
    assert one.family is not None
    assert not one.sample.startswith("</think>")


@pytest.mark.slow
@pytest.mark.parametrize("between", ["\n", "\n\n", " \n"])
@pytest.mark.parametrize("form", ["json", "named", "tags"])
def test_what_a_template_writes_between_calls_is_written_between_them(form: str, between: str) -> None:
    """And it is no text of the answer, however it is cut."""
    template = _with_between(form, between)
    one = derive.derive(template).family
    assert one is not None
    called = [
        {"id": f"c{at}", "type": "function", "function": {"name": call.name, "arguments": json.loads(call.arguments)}}
        for at, call in enumerate(CALLS)
    ]
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": called}]
    (rendered,) = template.render([{"messages": messages}])
    written = one.render_calls(CALLS)
    assert between in written
    assert written in (rendered or "")
    for pieces in ([written], list(written)):
        events = read(one.parser(TOOLS, ParserOptions()), pieces)
        assert [call.name for call in calls_in(events)] == ["look_up", "clock"]
        assert not text_in(events)


@pytest.mark.slow
def test_a_template_with_words_between_calls_is_not_derived() -> None:
    assert "no reader gives the rendered calls back" in derive.derive(_with_between("json", ", and then ")).why


def _with_between(form: str, between: str) -> ChatTemplate:
    end = "{% endfor %}{% endif %}<|im_end|>"
    source = templates.READ[form]
    assert end in source
    return ChatTemplate(source.replace(end, f"{{{{ {between!r} if not loop.last }}}}{end}"))


@pytest.mark.slow
def test_names_that_are_only_in_the_ids_of_calls_are_found() -> None:
    """Kimi K2's checkpoints have such a template."""
    one = derived(templates.NAMED.replace("call.function.name", "call.id"))
    assert one.family is not None, one.why
    assert one.family.render_calls(CALLS[:1]).startswith("<|acme:call|>functions.look_up:0<|acme:args|>")


@pytest.mark.slow
def test_a_template_that_repeats_what_is_looked_for_ends() -> None:
    """A search that begins again at each of these takes hours."""
    words = "gqcity Mqparis hqdays days 7 { "
    one = derived(templates.TAGS.replace("<acme_call name=", f"{{{{ '{words}' * 5000 }}}}<acme_call name="))
    assert "two calls in different forms" in one.why


@pytest.mark.slow
def test_one_call_a_turn_is_told(found: dict[str, Derived]) -> None:
    one = found["one_call"]
    assert one.family is not None
    assert any("one a turn" in each for each in one.unknown)
    assert one.family.write(CALLS) is None  # such a turn is written in JSON


REVERSED = (
    "<|acme:call|>{{ call.name }}{% for key in call.arguments | reverse %} {{ key }}={{ call.arguments[key] }}"
    "{% endfor %}"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "why"),
    [
        (templates.NO_CALLS, "does not write calls"),
        (templates.PROSE, "does not write calls"),
        (templates.each(REVERSED), "arguments in another order"),
        (TWICE.replace("atem:", "acme:"), "which begin like 'to=look_up<|message|><acme:function_calls>"),
        ("{{ messages | length }}", "cannot be rendered"),
        ("{% for x in range(10) %}{% for y in range(10) %}a{% endfor %}{% endfor %}", "cannot be rendered"),
        (templates.JSON.replace("<acme_call>", "call: "), "no reader gives"),
    ],
)
def test_what_cannot_be_derived_says_why(source: str, why: str) -> None:
    one = derived(source)
    assert one.family is None
    assert why in one.why
    assert one.confidence == "none"


@pytest.mark.slow
def test_a_renderer_that_loses_arguments_is_told() -> None:
    one = derived(templates.TAGS.replace("value | tojson", "value"))  # Python's spelling: None, True
    assert one.family is not None
    assert one.read_back <= one.tried
    assert all(json.loads(each) for each in one.lost)


HOSTILE = {
    "time": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "memory": "{{ 'x' * 10 ** 12 }}",
    "growth": "{% set n = namespace(s='x') %}{% for a in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
    "output": "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_template_is_bounded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "SECONDS", 1)
    try:
        rendered = ChatTemplate(HOSTILE[kind]).render([{"messages": []}])
    except FormatError:
        rendered = [None]  # its process was ended
    assert rendered == [None]


@pytest.mark.slow
def test_what_a_template_renders_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MAX_TEXT", 100)
    assert ChatTemplate("{% for a in range(101) %}x{% endfor %}").render([{}]) == [None]
    assert ChatTemplate("{% for a in range(100) %}x{% endfor %}").render([{}]) == ["x" * 100]


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ().__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    ],
)
def test_a_template_is_in_a_sandbox(source: str) -> None:
    rendered = ChatTemplate(source).render([{"messages": [1]}])[0]
    assert rendered is None or rendered == ""


def test_what_a_template_changes_is_its_own_rendering_alone() -> None:
    context = {"messages": [1]}
    template = ChatTemplate("{% set _ = messages.append(2) %}{{ messages }}")
    assert template.render([context, context]) == ["[1, 2]", "[1, 2]"]
    assert context == {"messages": [1]}


def test_what_is_no_jinja_says_so() -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        derive.derive(ChatTemplate("{% if %}"))
    with pytest.raises(FormatError, match="more than"):
        derive.derive(ChatTemplate("x" * (render.MAX_SOURCE + 1)))


def test_without_jinja2_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(FormatError, match=r"pip install .*\[hf\]"):
        ChatTemplate("x").render([{}])


@pytest.mark.slow
def test_a_thought_is_told_from_text(found: dict[str, Derived]) -> None:
    family = found["named"].family
    assert family is not None
    markup.add(family.markup)
    events = read(family.parser(TOOLS, ParserOptions()), ["<ponder>\nhm\n</ponder>\nSo."])
    assert thought_in(events).strip() == "hm"
    assert text_in(events).strip() == "So."


def test_a_number_that_python_does_not_read_is_not_counted() -> None:
    number = "7" * 5000
    calls = f"[{number}{{{{ loop.index0 }}}}] {{{{ call.function.name }}}} {{{{ call.function.arguments | tojson }}}};"
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
        f"{{% for call in m.tool_calls or [] %}}{calls}{{% endfor %}}<|end|>{{% endfor %}}"
    )
    assert derived(source).why
