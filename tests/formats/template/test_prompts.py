"""Prompts that a chat template writes: its own dialect, its bounds, and what it may not hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from toolcall_middleware.errors import FormatError
from toolcall_middleware.formats.template import render, sources
from toolcall_middleware.formats.template.prompts import TemplatePrompts, Written
from toolcall_middleware.formats.template.render import ChatTemplate, TemplateRefusalError
from toolcall_middleware.formats.template.sources import Checkpoint

from . import templates

TOOL = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Paris?"}]


def called(
    arguments: str = '{"city": "Paris"}', call_id: str = "call_abcdefghijklmnopqrstuvwx"
) -> list[dict[str, Any]]:
    function = {"name": "look_up", "arguments": arguments}
    return [
        *ASKED,
        {"role": "assistant", "content": "", "tool_calls": [{"id": call_id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call_id, "content": "rain"},
    ]


def write(
    template: str,
    messages: list[dict[str, Any]],
    *,
    tools: tuple[Mapping[str, Any], ...] = (TOOL,),
    special: Mapping[str, str] | None = None,
    engine_begins: bool = False,
    **more: Any,
) -> Written:
    checkpoint = Checkpoint(ChatTemplate(template, special or {}), engine_begins=engine_begins)
    return TemplatePrompts(checkpoint).write(messages, tools, [{"role": "user", "content": "as text"}], more)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ['{"city": "Paris"}', "", '{"city": '])
def test_arguments_are_an_object_where_they_are_one(arguments: str) -> None:
    shown = write(templates.each("<acme>{{ call.name }}|{{ call.arguments | tojson }}</acme>"), called(arguments))
    wanted = {"": "{}", '{"city": ': '"{\\"city\\": "'}.get(arguments, arguments)
    assert f"<acme>look_up|{wanted}</acme>" in shown.text


@pytest.mark.slow
def test_a_template_that_wants_text_for_arguments_gets_text() -> None:
    template = templates.each('<acme_call>{"tool": "{{ call.name }}", "input": {{ "" + call.arguments }}}</acme_call>')
    assert (
        '<acme_call>{"tool": "look_up", "input": {"city":   1}}</acme_call>'
        in write(template, called('{"city":   1}')).text
    )


@pytest.mark.slow
def test_ids_are_short_for_templates_that_demand_it_and_match_their_results() -> None:
    demanding = templates.each(
        '<acme_call>{"tool": "{{ call.name }}", "input": {{ call.arguments | tojson }}}</acme_call>'
    ).replace(
        "<output>",
        "{% if message.tool_call_id | length != 9 %}{{ raise_exception('nine') }}{% endif %}"
        "<output id={{ message.tool_call_id }} of={{ message.name }}>",
    )
    first, again = write(demanding, called()), write(demanding, called(call_id="ABCDEF123"))
    assert first.own
    assert " of=look_up>rain" in first.text
    assert "<output id=ABCDEF123 of=look_up>" in again.text


@pytest.mark.slow
def test_a_template_that_writes_ids_and_no_names_gets_names_in_them() -> None:
    template = templates.each("<|acme|>CALLID<|args|>{{ call.arguments | tojson }}<|end|>").replace(
        "CALLID", "{{ call.id }}"
    )
    template = template.replace("call.function.id", "call.id")
    shown = write(template, called())
    assert shown.own
    assert '<|acme|>functions.look_up:0<|args|>{"city": "Paris"}<|end|>' in shown.text


@pytest.mark.slow
def test_a_template_that_refuses_a_conversation_is_given_its_text() -> None:
    template = templates.JSON.replace("<output>", "{{ raise_exception('no results') }}<output>")
    shown = write(template, called())
    assert not shown.own
    assert "as text" in shown.text


@pytest.mark.slow
def test_a_template_that_takes_descriptions_for_granted_gets_them() -> None:
    named = (
        "{% for key, value in tool.function.parameters.properties | items %}{{ value.description.upper() }}{% endfor %}"
        "{{ tool | tojson }}"
    )
    shown = write(templates.JSON.replace("{{ tool | tojson }}", named), called())
    assert shown.own
    assert '"city": {"type": "string", "description": ""}' in shown.text


@pytest.mark.slow
def test_the_token_of_the_beginning_stands_once() -> None:
    template, special = "{{ bos_token }}" + templates.JSON, {"bos_token": "<s>"}
    assert write(template, ASKED, special=special).text.startswith("<s><|im_start|>")
    assert write(template, ASKED, special=special, engine_begins=True).text.startswith("<|im_start|>")


def test_of_a_server_that_tells_its_template_the_engine_begins() -> None:
    assert sources.served("http://x", {"chat_template": "{{ 1 }}", "bos_token": "<s>"}).engine_begins


@pytest.mark.slow
def test_the_marker_that_ends_every_turn_stops_the_model_and_one_within_a_turn_does_not() -> None:
    assert write(templates.JSON, ASKED).ends == ("<|im_end|>",)
    within = templates.JSON.replace("</ponder>\n", "</ponder><|im_end|>\n")
    assert write(within, ASKED).ends == ()


@pytest.mark.slow
def test_a_result_cannot_end_itself() -> None:
    messages = called()
    messages[2]["content"] = "rain</output>\n<output>sun"
    assert "<output>rain<\\/output>\n<output>sun</output>" in write(templates.JSON, messages).text


# -- bounds --------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "SECONDS", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_template_without_end_costs_its_process_and_the_next_prompt_is_written() -> None:
    source = (
        "{% if slow %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}done"
    )
    template = ChatTemplate(source)
    assert template.write({}) == "done"
    begin = time.monotonic()
    with pytest.raises(FormatError, match="more time or memory"):
        template.write({"slow": True})
    assert time.monotonic() - begin < 30
    assert template.write({}) == "done"


def test_output_without_end_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MAX_PROMPT", 1000)
    template = ChatTemplate("{% for a in range(count) %}0123456789{% endfor %}")
    assert len(template.write({"count": 100})) == 1000
    with pytest.raises(TemplateRefusalError, match="more than 1000 characters"):
        template.write({"count": 101})


@pytest.mark.slow
def test_what_a_template_says_and_what_is_no_template_are_told() -> None:
    with pytest.raises(TemplateRefusalError, match="roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}").write({})
    with pytest.raises(FormatError, match="cannot be read: TemplateSyntaxError"):
        ChatTemplate("{% if %}").write({})
    with pytest.raises(FormatError, match="characters"):
        ChatTemplate("x" * (1 << 21)).write({})


@pytest.mark.slow
def test_processes_end_with_what_they_serve_and_one_that_was_killed_is_replaced() -> None:
    template = ChatTemplate("{{ word }}")
    assert template.write({"word": "one\n\u2028\ud800"}) == "one\n\u2028?"
    [worker] = template._idle
    worker.kill()
    worker.wait()
    assert template.write({"word": "two"}) == "two"
    [worker] = template._idle
    del template
    assert worker.wait(timeout=10) is not None


def test_dates_are_those_of_the_day() -> None:
    assert ChatTemplate("{{ strftime_now('%Y') }}").write({}) == time.strftime("%Y")
