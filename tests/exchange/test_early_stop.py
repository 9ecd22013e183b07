"""Generation ends where nothing more is wanted: after the calls that may be made, where the model goes on with somebody
else's turn, and at the client's own stop strings. The backend is told, and the client's answer ends cleanly at once.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.formats import goldens
from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Choice, check_stream, check_whole
from tests.response.streams import DONE, chunk, completion, event, role
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.model import ToolCall, ToolResult
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

PARIS = '{"city": "Paris"}'
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("weather", "clock")]
JUNK = "The weather is 18 degrees.\n\nThank you! And in Rome?\n" + "More and more of it. " * 20


def asked(*, stream: bool, settings: dict[str, Any], **fields: Any) -> Driven:
    made = Driven(Settings(**settings), BackendMemory())
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "stream": stream, **fields}
    sent = made.on_request(json.dumps(body).encode())
    assert sent is not None
    assert "stop" not in json.loads(sent)  # it would end a call; we look for it ourselves
    return made


def streamed(text: str, *, size: int = 3, settings: dict[str, Any] | None = None, **fields: Any) -> tuple[Choice, int]:
    """(the answer, how many characters of `text` the backend had to write for it)."""
    made = asked(stream=True, settings=settings or {}, **fields)
    made.on_response_start(200, [(b"content-type", b"text/event-stream")])
    out = made.feed(event(role()))
    for at in range(0, len(text), size):
        out += made.feed(event(chunk({"content": text[at : at + size]})))
        if made.stopped:
            assert out.endswith(DONE)  # at once, not when the backend is done
            assert made.finish() == b""
            return check_stream(out).only, at + size
    out += made.feed(event(chunk({}, "stop")) + DONE) + made.finish()
    return check_stream(out).only, len(text)


def whole(text: str, *, settings: dict[str, Any] | None = None, **fields: Any) -> Choice:
    made = asked(stream=False, settings=settings or {}, **fields)
    return check_whole(made.answers(completion(text)).body).only


def both(text: str, **options: Any) -> tuple[Choice, int]:
    """The answer, which must be the same whole, in single characters and in pieces; and the backend's characters."""
    once, written = streamed(text, **options)
    for size in (1, len(text)):
        again, _ = streamed(text, size=size, **options)
        assert (again.content, again.named_calls, again.finish_reason) == (
            once.content, once.named_calls, once.finish_reason
        )  # fmt: skip
    at_once = whole(text, **options)
    assert ((at_once.content or ""), at_once.named_calls) == ((once.content or ""), once.named_calls)
    assert at_once.finish_reason == once.finish_reason
    return once, written


# -- somebody else's turn ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", goldens.formats())
def test_a_model_that_invents_results_is_stopped(name: str) -> None:
    fmt = registry.get(name)
    calls = fmt.render_calls([ToolCall("weather", PARIS)])
    results = fmt.render_results([ToolResult("weather", "18 degrees", "call_1")])
    if not results.startswith(markup.gathered().stops):
        pytest.skip("its results are bare JSON")
    choice, written = both(f"{calls}\n{results}\n{JUNK}", settings={"format": name})
    assert [(call.name, call.parsed) for call in choice.calls] == [("weather", {"city": "Paris"})]
    assert (choice.content or "").strip() == ""
    assert choice.finish_reason == "tool_calls"
    assert written < len(calls) + len(results)


@pytest.mark.parametrize("marker", markup.gathered().stops)
@pytest.mark.parametrize("name", ["hermes", "json", "qwen3_coder", "llama3_json", "pythonic", "mistral_v11"])
def test_every_beginning_of_another_turn_stops_it(name: str, marker: str) -> None:
    calls = registry.get(name).render_calls([ToolCall("weather", PARIS), ToolCall("clock", "{}")])
    choice, written = both(f"{calls}\n{marker}{JUNK}", settings={"format": name})
    assert [call.name for call in choice.calls] == ["weather", "clock"]
    assert (choice.content or "").strip() == ""
    assert written <= len(calls) + len(marker) + 10


def test_without_a_call_it_is_text() -> None:
    text = "Results stand in <tool_response> tags, and <|im_start|> begins a turn."
    choice, written = both(text)
    assert (choice.content, written, choice.finish_reason) == (text, len(text), "stop")


# -- enough calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", goldens.formats())
def test_one_call_is_enough_where_one_is_wanted(name: str) -> None:
    fmt = registry.get(name)
    call = ToolCall("weather", PARIS)
    calls = fmt.render_calls([call, ToolCall("clock", "{}")])
    for fields in (
        {"parallel_tool_calls": False},
        {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
    ):
        choice, written = both(f"{calls}\n{JUNK}", settings={"format": name}, **fields)
        assert [(call.name, call.parsed) for call in choice.calls] == [("weather", {"city": "Paris"})]
        assert (choice.content or "").strip() == ""
        assert choice.finish_reason == "tool_calls"
        assert written < len(calls)


def test_the_operators_limit_ends_it_too() -> None:
    calls = registry.get("hermes").render_calls([ToolCall("weather", PARIS)] * 5)
    choice, written = both(calls, settings={"format": "hermes", "max_tool_calls": 2})
    assert len(choice.calls) == 2
    assert written < len(calls) * 3 / 5


# -- the client's stop strings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["STOP", ["never", "STOP"], ["\n\n", "STOP"], "ST"])
def test_a_stop_string_ends_text_wherever_it_is_cut(stop: Any) -> None:
    for size in range(1, 12):
        choice, written = streamed(f"Some words S S ST{'OP'} and more. " + JUNK, size=size, stop=stop)
        assert choice.content == "Some words S S "
        assert choice.finish_reason == "stop"
        assert written < 40
    assert whole(f"Some words S S STOP{JUNK}", stop=stop).content == "Some words S S "


@pytest.mark.parametrize("name", goldens.formats())
def test_a_stop_string_never_cuts_a_call(name: str) -> None:
    calls = registry.get(name).render_calls([ToolCall("weather", '{"city": "Paris STOP\\n\\nhere"}')])
    stops = ["STOP", "\n\n", "}", ">", "city", "weather"][:4]
    choice, _ = both(f"Well. {calls}" if name not in {"harmony", "functionary_v32"} else calls,
                     settings={"format": name}, stop=stops)  # fmt: skip
    if not choice.calls:
        # What only opens an answer is none behind text: without it then.
        choice, _ = both(calls, settings={"format": name}, stop=stops)
    assert [(call.name, call.parsed) for call in choice.calls] == [("weather", {"city": "Paris STOP\n\nhere"})]
    assert choice.finish_reason == "tool_calls"


def test_a_stop_string_behind_a_call_ends_the_answer() -> None:
    calls = registry.get("hermes").render_calls([ToolCall("weather", PARIS)])
    choice, written = both(f"{calls}\nSo much. STOP {JUNK}", settings={"format": "hermes"}, stop="STOP")
    assert (len(choice.calls), (choice.content or "").strip(), choice.finish_reason) == (1, "So much.", "tool_calls")
    assert written < len(calls) + 30


def test_stop_strings_are_ours_in_native_mode() -> None:
    choice, written = streamed("Some STOP words", settings={"mode": "native"}, stop="STOP")
    assert (choice.content, choice.finish_reason) == ("Some ", "stop")
    assert written < 15
