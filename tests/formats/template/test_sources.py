"""Where a template comes from, and what the setting `template` does with it."""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from toolcall_middleware.errors import FormatError, SettingsError
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.family import Family
from toolcall_middleware.formats.template import sources
from toolcall_middleware.model import Tool, ToolCall, ToolResult
from toolcall_middleware.settings import Settings

from ...parsing.streams import calls_in, read, text_in
from . import templates

CONFIG = {"eos_token": {"content": "<|im_end|>"}, "bos_token": None}
CALL = '<acme_call>{"tool": "look_up", "input": {"city": "Paris"}}</acme_call>'


@pytest.fixture(autouse=True)
def _fresh() -> None:
    sources.forget()


def checkpoint(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps({**CONFIG, **config}))
    return folder


def test_a_folder_a_file_and_a_list_of_templates_are_sources(tmp_path: Path) -> None:
    inside = checkpoint(tmp_path / "a", chat_template=templates.JSON)
    beside = checkpoint(tmp_path / "b")
    (beside / "chat_template.jinja").write_text(templates.JSON)
    json_file = checkpoint(tmp_path / "c")
    (json_file / "chat_template.json").write_text(json.dumps({"chat_template": templates.JSON}))
    several = checkpoint(
        tmp_path / "d",
        chat_template=[
            {"name": "default", "template": templates.NO_CALLS},
            {"name": "tool_use", "template": templates.JSON},
        ],
    )
    places = [inside, inside / "tokenizer_config.json", beside, beside / "chat_template.jinja", json_file]
    for place in (*places, json_file / "chat_template.json", several):
        found = sources.find(str(place))
        assert found.template.source == templates.JSON
        assert found.template.special == {"eos_token": "<|im_end|>"}


def test_a_model_in_hugging_faces_cache_is_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    checkpoint(tmp_path / "models--acme--one" / "snapshots" / "abc", chat_template=templates.JSON)
    assert sources.find("acme/one").template.source == templates.JSON
    assert sources.in_cache("acme/one") == "acme/one"
    for name in ("acme/two", "../acme--one", str(tmp_path / "models--acme--one" / "snapshots" / "abc"), "", "a/b/c"):
        assert sources.in_cache(name) is None


def test_what_is_no_source_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing is downloaded"):
        sources.find(str(tmp_path / "x"))
    with pytest.raises(SettingsError, match="holds no chat template"):
        sources.find(str(checkpoint(tmp_path / "y")))
    (tmp_path / "z.json").write_text("{")
    with pytest.raises(SettingsError, match="is not JSON"):
        sources.find(str(tmp_path / "z.json"))
    (tmp_path / "l.json").write_bytes(b"\xe9")
    with pytest.raises(SettingsError) as raised:
        sources.find(str(tmp_path / "l.json"))
    assert str(raised.value) == f"template: {tmp_path / 'l.json'} cannot be read: it is not UTF-8."
    with pytest.raises(SettingsError, match="the proxy"):
        sources.find("props")


def test_what_a_server_tells_of_itself_is_a_source() -> None:
    told = {"chat_template": templates.NO_CALLS, "chat_template_tool_use": templates.JSON, "eos_token": "<|im_end|>"}
    found = sources.served("http://x/props", told)
    assert (found.template.source, found.template.special) == (templates.JSON, {"eos_token": "<|im_end|>"})
    others: tuple[object, ...] = ({}, None, [], {"chat_template": 1})
    for props in others:
        with pytest.raises(SettingsError, match="no chat_template"):
            sources.served("http://x/props", props)


@pytest.mark.slow
def test_the_format_template_is_the_derived_family(tmp_path: Path) -> None:
    place = str(checkpoint(tmp_path, chat_template=templates.JSON))
    fmt = registry.for_model("template", "any", place)
    assert fmt.name == "template"
    events = read(fmt.parser(None, ParserOptions()), [CALL])
    assert [call.name for call in calls_in(events)] == ["look_up"]
    assert registry.of_settings(Settings(format="template", template=place)) is fmt


@pytest.mark.slow
def test_the_format_template_without_a_usable_template_is_an_error_at_start(tmp_path: Path) -> None:
    for settings in (
        Settings(format="template"),
        Settings(format="template", template=str(checkpoint(tmp_path, chat_template=templates.NO_CALLS))),
    ):
        with pytest.raises(FormatError, match="template"):
            registry.of_settings(settings)


@pytest.mark.slow
def test_auto_uses_the_template_where_the_name_tells_no_family(tmp_path: Path) -> None:
    place = str(checkpoint(tmp_path, chat_template=templates.JSON))
    fmt = registry.for_model("auto", "acme-9b", place)
    assert isinstance(fmt, Family)
    assert fmt.prompt_name == "template"
    assert registry.for_model("auto", "other-9b", place) is fmt
    for text in (CALL, '<tool_call>{"name": "look_up", "arguments": {}}</tool_call>'):
        assert [call.name for call in calls_in(read(fmt.parser(None, ParserOptions()), [text]))] == ["look_up"]
    known = registry.for_model("auto", "Qwen3-8B", place)
    assert isinstance(known, Family)
    assert known.prompt_name == "hermes"


@pytest.mark.slow
def test_auto_goes_on_without_a_template_that_tells_nothing_and_says_why_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = str(checkpoint(tmp_path, chat_template=templates.NO_CALLS))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert registry.for_model("auto", "acme-9b", place) is registry.get("auto")
    assert [record.getMessage() for record in caplog.records].count(caplog.records[0].getMessage()) == 1
    assert "the template does not write calls" in caplog.text


@pytest.mark.slow
def test_a_marker_of_a_known_family_with_another_syntax_is_read_as_the_template_says(tmp_path: Path) -> None:
    """`<|tool_call_start|>` is LFM2's, who writes Python behind it."""
    form = "<|tool_call_start|>{{ call.name }}<|acme:args|>{{ call.arguments | tojson }}<|tool_call_end|>"
    place = str(checkpoint(tmp_path, chat_template=templates.each(form)))
    fmt = registry.for_model("auto", "acme-9b", place)
    text = '<|tool_call_start|>look_up<|acme:args|>{"city": "Paris"}<|tool_call_end|>'
    assert text_in(read(registry.get("auto").parser(None, ParserOptions()), [text])) != ""
    events = read(fmt.parser(None, ParserOptions()), [text])
    assert [(call.name, call.arguments) for call in calls_in(events)] == [("look_up", '{"city": "Paris"}')]


@pytest.mark.slow
def test_the_cache_is_asked_by_the_requests_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    checkpoint(tmp_path / "models--acme--one" / "snapshots" / "abc", chat_template=templates.JSON)
    fmt = registry.for_model("auto", "acme/one", "cache")
    assert isinstance(fmt, Family)
    assert fmt.prompt_name == "template"
    assert registry.for_model("auto", "acme/two", "cache") is registry.get("auto")


DECLARED: dict[str, Any] = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<muse>", "close_pattern": r"</muse>\s*"},
        "tool_calls": {
            "open": "<acme_call>",
            "close_pattern": r"</acme_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
    },
}


KEYS = {"function": {"name": "{content.tool}", "arguments": "{content.input}"}}


@pytest.mark.slow
def test_a_declared_response_template_is_used(tmp_path: Path) -> None:
    declared = copy.deepcopy(DECLARED)
    declared["fields"]["tool_calls"]["transform"] = KEYS
    plain = templates.JSON.replace("message.reasoning_content", "false")
    found = sources.of_source(str(checkpoint(tmp_path, chat_template=plain, response_template=declared)))
    assert found.kind == "declared by the checkpoint: JSON objects after <acme_call>"
    assert found.family is not None
    assert found.family.markup.reasoning == (("<muse>", "</muse>"),)


@pytest.mark.slow
def test_a_declaration_is_used_where_the_template_writes_no_calls(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, chat_template=templates.NO_CALLS, response_template=DECLARED)
    found = sources.of_source(str(place))
    assert found.family is not None
    assert (found.kind, found.confidence) == ("declared by the checkpoint: JSON objects after <acme_call>", "likely")
    assert found.read_back == found.tried > 10
    assert found.family.markup.reasoning == (("<muse>", "</muse>"),)
    call = '<acme_call>{"name": "look_up", "arguments": {"city": "Paris"}}</acme_call>'
    assert found.family.render_calls([ToolCall("look_up", '{"city": "Paris"}')]) == call
    tool = Tool("look_up", "Looks up.", {"type": "object", "properties": {"city": {"type": "string"}}})
    prompt = found.family.render_tools([tool], parallel=True)
    assert "<acme_call>" in prompt
    assert "Looks up." in prompt
    for fmt in (
        registry.for_model("template", "acme-9b", str(place)),
        registry.for_model("auto", "acme-9b", str(place)),
    ):
        events = read(fmt.parser(None, ParserOptions()), list(f"So. {call}"))
        assert [(each.name, each.arguments) for each in calls_in(events)] == [("look_up", '{"city": "Paris"}')]
        assert text_in(events).strip() == "So."
    # All families' markup is neutralised in results, and this is one from the first use on.
    assert "<acme_call>" not in found.family.render_results([ToolResult("look_up", call, "1")])


@pytest.mark.slow
def test_a_declaration_that_does_not_read_the_templates_calls_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = checkpoint(tmp_path, chat_template=templates.TAGS, response_template=DECLARED)
    with caplog.at_level(logging.WARNING):
        assert registry.for_model("template", "acme-9b", str(place)).name == "template"
        registry.for_model("template", "acme-9b", str(place))
    (line,) = (record.getMessage() for record in caplog.records if "response_template" in record.getMessage())
    assert str(place) in line
    assert "does not read what the chat template renders" in line


@pytest.mark.slow
def test_a_declaration_that_is_not_compiled_leaves_it_to_the_template_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declared = {"fields": {"tool_calls": {"open": "<acme_call>", "close": "</acme_call>", "content": "kv-lines"}}}
    found = sources.of_source(str(checkpoint(tmp_path, chat_template=templates.JSON, response_template=declared)))
    assert found.kind == "JSON objects after <acme_call>"
    (said,) = (each for each in found.unknown if "response_template" in each)
    assert said == "the checkpoint's response_template is not used: content of the kind kv-lines"
    with caplog.at_level(logging.WARNING):
        registry.for_model("auto", "acme-9b", str(tmp_path))
    assert said in caplog.text


def test_special_tokens_that_a_checkpoint_shows_are_kept_out_of_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markup, "_private", {})
    added = {"1": {"content": "§turn§", "special": True}, "2": {"content": "§word§", "special": False}, "3": None}
    template = templates.JSON + "{{ '<acme-turn:user>' }}{{ messages[0] }}<b and c>{{ '[ACME]' }}"
    place = checkpoint(tmp_path, chat_template=template, added_tokens_decoder=added, eos_token="~over~")
    try:
        fmt = registry.for_model("auto", "qwen3", str(place))
        said = "§turn§ ~over~ <acme-turn:user> [ACME] §word§ x[0] <b and c> <div>"
        sources.derived(str(place), "")
        shown = fmt.render_results([ToolResult("f", said, "1")])
    finally:
        monkeypatch.undo()
        markup.gathered.cache_clear()
        markup.turn_markers.cache_clear()
    assert not [token for token in ("§turn§", "~over~", "<acme-turn:user>", "[ACME]") if token in shown]
    assert "§word§ x[0] <b and c> <div>" in shown


def test_what_props_shows_is_kept_out_too() -> None:
    found = sources.served("http://a", {"chat_template": "{{ '<acme-turn>' }}", "eos_token": "~over~"})
    assert set(found.special_tokens) == {"<acme-turn>", "~over~"}
