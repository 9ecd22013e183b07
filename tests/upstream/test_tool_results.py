"""What is odd about tool results, and what a backend with tools of its own is given."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_middleware.response.call_id_codec import write_id
from toolcall_middleware.upstream.history import for_backend, result_warnings

from ..request.chats import HELLO, calling, result

ASKED = calling(("call_a", "weather", "{}"), ("call_b", "clock", "{}"))


def warned(content: Any, limit: int | None = None, **fields: Any) -> list[str]:
    return result_warnings([HELLO, ASKED, result("call_a", content, **fields)], limit)


@pytest.mark.parametrize(
    "content",
    [
        "Error: no such city",
        "ValueError: bad city",
        "  error: timeout",
        "An error occurred while fetching",
        "Traceback (most recent call last):\n  File",
        '{"error": "not found"}',
        '{ "error": {"code": 404}, "data": null}',
        {"error": "not found"},
        "Failed to connect",
    ],
)
def test_a_text_that_reads_like_an_error_is_told(content: Any) -> None:
    assert warned(content) == ["the result of 'weather' reads like an error, and is_error is not set"]
    assert warned(content, is_error=True) == []


@pytest.mark.parametrize(
    "content",
    ["Sunny, 20 C", '{"error": null, "sky": "blue"}', "No errors were found", "terror: a film", {"sky": 1}, "0"],
)
def test_other_texts_are_not(content: Any) -> None:
    assert warned(content) == []


@pytest.mark.parametrize("content", ["", " \n", [], {}, "{}", "null", "[]"])
def test_an_empty_result_is_told(content: Any) -> None:
    assert warned(content) == ["the result of 'weather' is empty"]


def test_a_large_result_is_told_and_so_is_one_that_was_cut() -> None:
    assert warned("x" * 65536) == []
    assert warned("x" * 65537) == ["the result of 'weather' is very large, 65537 bytes"]
    assert warned("x" * 11, 10) == ["max_result_bytes is 10: the result of 'weather' has 11 bytes and was cut off"]
    assert warned("x" * 10, 10) == []


def test_only_the_results_at_the_end_are_looked_at() -> None:
    bad = result("call_a", "")
    assert result_warnings([HELLO, ASKED, bad, result("call_b", "")], None) == [
        "the result of 'weather' is empty",
        "the result of 'clock' is empty",
    ]
    assert result_warnings([HELLO, ASKED, bad, HELLO], None) == []
    assert result_warnings([HELLO, ASKED, bad, {"role": "assistant", "content": "x"}], None) == []
    assert result_warnings([HELLO], None) == []


def test_a_backend_with_tools_gets_text_and_no_more_than_the_limit() -> None:
    messages = [HELLO, ASKED, result("call_a", {"sky": "blué"}, is_error=False, extra=1), result("call_b", "1\n" * 50)]
    made = for_backend(messages, 20, own_ids=False)
    assert made is not None
    assert made[:2] == messages[:2]
    assert made[2] == {"role": "tool", "tool_call_id": "call_a", "content": '{"sky":"blué"}', "extra": 1}
    assert made[3]["content"] == "1\n" * 10 + "[80 bytes of this result were cut off here]"
    assert messages[3]["content"] == "1\n" * 50


def test_what_is_fine_stays_the_clients() -> None:
    parts = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "u"}}]
    assert for_backend([HELLO, ASKED, result("call_a", parts), result("call_b", "x")], 100, own_ids=True) is None


def test_written_ids_become_the_backends_again() -> None:
    written = write_id("functions.weather:0")
    messages = [HELLO, calling((written, "weather", "{}")), result(written, "x")]
    assert for_backend(messages, None, own_ids=False) is None
    made = for_backend(messages, None, own_ids=True)
    assert made is not None
    assert made[1]["tool_calls"][0]["id"] == made[2]["tool_call_id"] == "functions.weather:0"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("no such file", "Error: the call failed.\nno such file"),
        ("Error: no such file", "Error: no such file"),
        ({"code": 2}, 'Error: the call failed.\n{"code":2}'),
        (
            [{"type": "text", "text": "x"}],
            [{"type": "text", "text": "Error: the call failed."}, {"type": "text", "text": "x"}],
        ),
    ],
)
def test_a_backend_without_a_field_for_failed_calls_is_told_in_words(content: Any, told: Any) -> None:
    message = result("call_a", content, is_error=True)
    made = for_backend([HELLO, ASKED, message], None, own_ids=False)
    assert made is not None
    assert made[2] == {**{key: value for key, value in message.items() if key != "is_error"}, "content": told}
    kept = for_backend([HELLO, ASKED, message], None, own_ids=False, knows_errors=True)
    assert (kept or [HELLO, ASKED, message])[2]["is_error"] is True
