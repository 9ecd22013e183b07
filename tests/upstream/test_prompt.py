from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.helpers.fakes import complaint
from toolcall_middleware.formats.families.prompted import JSON
from toolcall_middleware.formats.families.qwen import HERMES
from toolcall_middleware.lru_cache import LRUCache
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream import attempt as prompt

from ..request.chats import CLOCK, HELLO, WEATHER, calling, read, refusal, request, result, tool
from .built import build_body, build_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolcall_middleware.formats.base import ToolFormat
    from toolcall_middleware.model import Tool

FORMATS: list[ToolFormat] = [JSON, HERMES]
BODIES = sorted((Path(__file__).parent.parent / "clients_data").glob("*.json"))
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
AUTO = Settings()
SYSTEM = {"role": "system", "content": "Be brief."}

every_format = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)


class CountingFormat:
    """Tells how often the tool block was rendered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rendered = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(JSON, name)

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        self.rendered += 1
        return JSON.render_tools(tools, parallel=parallel)


def contents(*messages: dict[str, Any], fmt: Any = FORMATS[0], settings: Settings = AUTO, **fields: Any) -> list[Any]:
    return [m["content"] for m in build_messages(request(*messages, **fields), fmt, settings)]


def test_bodies_are_there() -> None:
    assert len(BODIES) == 20


@every_format
@pytest.mark.parametrize("role", ["system", "user"])
@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
def test_every_clients_body_comes_out_acceptable(path: Path, role: str, fmt: Any) -> None:
    raw = path.read_bytes()
    sent = json.loads(build_body(read(raw), fmt, Settings(system_role=role)))
    assert complaint(sent) is None
    assert refusal(sent) is None
    everything = "\n".join(m["content"] for m in sent["messages"])
    for offered in json.loads(raw)["tools"]:
        assert offered["function"]["name"] in everything
    for message in json.loads(raw)["messages"]:
        content = message.get("content") or ""
        for text in [part["text"] for part in content] if isinstance(content, list) else [content]:
            assert text in everything


@every_format
@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
def test_keep_leaves_no_calls_and_results_in_any_body(path: Path, fmt: Any) -> None:
    raw = path.read_bytes()
    sent = json.loads(build_body(read(raw), fmt, Settings(messages="keep")))
    assert not [m for m in sent["messages"] if m["role"] == "tool" or m.get("tool_calls")]
    assert "tools" not in sent


def test_the_tool_block_stands_first_and_the_clients_texts_after_it() -> None:
    block = FORMATS[0].render_tools(request(HELLO).tools.tools, parallel=True)
    assert contents(SYSTEM, HELLO) == [f"{block}\n\nBe brief.", "hello"]
    assert contents(HELLO, SYSTEM) == [f"{block}\n\nBe brief.", "hello"]
    assert contents(HELLO) == [block, "hello"]


def test_system_role_user_puts_it_before_the_first_user_message() -> None:
    settings = Settings(system_role="user")
    block = FORMATS[0].render_tools(request(HELLO).tools.tools, parallel=True)
    assert contents(SYSTEM, HELLO, settings=settings) == [f"{block}\n\nBe brief.\n\nhello"]
    answer = {"role": "assistant", "content": "hi"}
    assert contents(SYSTEM, answer, HELLO, settings=settings) == [f"{block}\n\nBe brief.", "hi", "hello"]
    parts = {"role": "user", "content": [IMAGE]}
    assert contents(parts, settings=settings) == [[{"type": "text", "text": block}, IMAGE]]


def test_keep_puts_the_block_into_the_first_system_message() -> None:
    settings = Settings(messages="keep")
    block = FORMATS[0].render_tools(request(HELLO).tools.tools, parallel=True)
    chat = request({"role": "developer", "content": "Be brief.", "name": "n"}, HELLO, SYSTEM)
    made = build_messages(chat, FORMATS[0], settings)
    assert made == [{"role": "developer", "content": f"{block}\n\nBe brief.", "name": "n"}, HELLO, SYSTEM]
    assert chat.messages[0]["content"] == "Be brief."
    assert build_messages(request(HELLO), FORMATS[0], settings) == [{"role": "system", "content": block}, HELLO]


@every_format
def test_choice_none_offers_nothing(fmt: Any) -> None:
    assert contents(HELLO, fmt=fmt, tool_choice="none") == ["hello"]
    assert contents(SYSTEM, HELLO, fmt=fmt, tool_choice="none") == ["Be brief.", "hello"]


def test_a_history_with_calls_and_no_tools_gets_no_block() -> None:
    made = contents(HELLO, calling(("a", "weather", "{}")), result("a", "rain"), tools=())
    assert made[0] == "hello"
    assert "rain" in made[2]


NAMED = {"type": "function", "function": {"name": "clock"}}
ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "clock"}}]},
}


@every_format
@pytest.mark.parametrize("choice", ["required", NAMED, ALLOWED], ids=["required", "named", "allowed"])
def test_what_depends_on_the_choice_is_in_the_last_message_before_its_text(fmt: Any, choice: Any) -> None:
    free = contents(SYSTEM, HELLO, fmt=fmt)
    bound = contents(SYSTEM, HELLO, fmt=fmt, tool_choice=choice)
    assert bound[:-1] == free[:-1]
    assert bound[-1].endswith("\n\nhello")
    if choice != "required":
        assert '"clock"' in bound[-1]
        assert "weather" not in bound[-1]


@every_format
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_the_choice_precedes_results_and_parts_and_follows_an_assistant(fmt: Any, choice: Any) -> None:
    said = fmt.render_choice(request(HELLO).tools.tools, request(HELLO, tool_choice=choice).choice)
    after_result = contents(HELLO, calling(("a", "weather", "{}")), result("a", "1"), fmt=fmt, tool_choice=choice)
    assert after_result[-1].startswith(f"{said}\n\n<")
    after_parts = contents({"role": "user", "content": [IMAGE]}, fmt=fmt, tool_choice=choice)
    assert after_parts[-1] == [{"type": "text", "text": said}, IMAGE]
    after_answer = contents(HELLO, {"role": "assistant", "content": "hi"}, fmt=fmt, tool_choice=choice)
    assert after_answer[1:] == ["hello", "hi", said]
    keep = Settings(messages="keep")
    assert contents(HELLO, HELLO, fmt=fmt, settings=keep, tool_choice=choice)[1:] == ["hello", f"{said}\n\nhello"]


def test_one_call_only_is_said_in_the_block_whatever_the_choice() -> None:
    many, one = (contents(HELLO, parallel_tool_calls=flag)[0] for flag in (True, False))
    assert many != one
    assert contents(HELLO)[0] == many
    assert contents(HELLO, tool_choice=NAMED)[0] == many
    assert contents(HELLO, tool_choice=NAMED, parallel_tool_calls=False)[0] == one
    assert contents(HELLO, tool_choice=NAMED, settings=Settings(parallel="never"))[0] == one


def test_the_block_is_rendered_once_for_the_same_bytes() -> None:
    fmt = CountingFormat("counting once")
    for text in ("a", "b", "c"):
        build_messages(request({"role": "user", "content": text}), fmt, AUTO)
    assert fmt.rendered == 1
    build_messages(request(HELLO, tools=[CLOCK]), fmt, AUTO)
    build_messages(request(HELLO, parallel_tool_calls=False), fmt, AUTO)
    assert fmt.rendered == 3


def test_cached_blocks_are_told_apart() -> None:
    first, second = request(HELLO, tools=[WEATHER]), request(HELLO, tools=[CLOCK])
    for fmt in (*FORMATS, *FORMATS):
        for chat, name in ((first, "weather"), (second, "clock")):
            made = build_messages(chat, fmt, AUTO)[0]["content"]
            assert made == fmt.render_tools(chat.tools.tools, parallel=True)
            assert f'"{name}"' in made
    # `auto` renders as other formats do: one name, several prompts.
    renamed = dataclasses.replace(HERMES, name="json")
    assert build_messages(first, renamed, AUTO) == build_messages(first, HERMES, AUTO)
    # A guard that offers fewer tools than the client sent must not get the block of all.
    both = request(HELLO)
    build_messages(both, FORMATS[0], AUTO)
    both.tools = both.tools.only(frozenset({"clock"}))
    assert "weather" not in build_messages(both, FORMATS[0], AUTO)[0]["content"]


def test_the_body_keeps_every_other_field_to_the_byte_and_in_order() -> None:
    raw = (
        b'{ "zeta" : {"a":1.0 , "b":[1e5,"\\u00e9"]},"model":"m", "messages":[{"role":"user","content":"x"}],'
        b'"temperature":0.70,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto",'
        b'"parallel_tool_calls":true,"stop":["Obs:"],"store" : true, "metadata":{"k":"v"},"seed":12345678901234}'
    )
    chat = read(raw)
    body = build_body(chat, FORMATS[0], AUTO, [HELLO])
    assert body == (
        b'{"zeta":{"a":1.0 , "b":[1e5,"\\u00e9"]},"model":"m","messages":[{"role":"user","content":"hello"}],'
        b'"temperature":0.70,"store":true,"metadata":{"k":"v"},"seed":12345678901234}'
    )
    assert bytes(chat.fields["tools"]).startswith(b"[")  # the request itself is as it was, for a retry


def test_extra_fields_are_set_in_place_added_or_removed() -> None:
    chat = request(HELLO, stream=True, stream_options={"include_usage": True}, seed=1, response_format={"type": "text"})
    extra = {"response_format": {"type": "json_schema"}, "stream_options": None, "logprobs": False, "gone": None}
    sent = json.loads(build_body(chat, FORMATS[0], AUTO, [HELLO], **extra))
    assert sent == {
        "model": "m",
        "messages": [HELLO],
        "stream": True,
        "seed": 1,
        "response_format": {"type": "json_schema"},
        "logprobs": False,
    }


def test_dropped_fields_are_not_sent_even_when_they_were_added() -> None:
    chat = request(HELLO, seed=1, user="u", temperature=1)
    settings = Settings(drop_params="seed,response_format,messages,unknown")
    sent = json.loads(build_body(chat, FORMATS[0], settings, [HELLO], response_format={}))
    assert sent == {"model": "m", "messages": [HELLO], "user": "u", "temperature": 1}


def test_skip_special_tokens_is_sent_only_where_markers_are_special() -> None:
    special = replace(JSON, name="special", special_tokens=True)

    def sent(fmt: Any, setting: str, **fields: Any) -> Any:
        body = build_body(request(HELLO, **fields), fmt, Settings(special_tokens=setting))
        return json.loads(body).get("skip_special_tokens")

    assert sent(special, "auto") is False
    assert sent(special, "off") is None
    assert sent(JSON, "auto") is None
    assert sent(JSON, "on") is False
    assert sent(special, "auto", tool_choice="none") is None
    assert sent(special, "auto", skip_special_tokens=True) is True


def test_messages_that_no_client_should_send_still_make_a_body() -> None:
    deep: Any = "x"
    for _ in range(150):
        deep = [deep]
    body = build_body(request(HELLO, calling(("a", "weather", "{}")), result("a", deep)), FORMATS[0], AUTO)
    assert complaint(msgspec.json.decode(body)) is None
    only_system = build_messages(request(SYSTEM, tool_choice="required"), FORMATS[0], AUTO)
    assert [m["role"] for m in only_system] == ["system", "user"]


def test_an_evicted_block_is_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt, "_BLOCKS", LRUCache(max_entries=1, max_size=1 << 20))
    fmt = CountingFormat("counting evicted")
    big = tool("big", "x" * 1000)
    for tools in ([big], [WEATHER], [big]):
        build_messages(request(HELLO, tools=tools), fmt, AUTO)
    assert fmt.rendered == 3
