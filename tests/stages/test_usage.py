"""Token counts: the backend's own where it gives any, an estimate that says so where it gives none."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from toolcall_middleware.stages.tokens import APPROXIMATE, read_prompt
from toolcall_middleware.stages.usage import UsageMeter
from toolcall_middleware.stages.usage_tap import UsageTap

from ..stream_rules import check_stream
from .streams import DONE, HEAD, chunk, event, role, says, stream

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "How are you today?"}]}).encode()


def estimate_prompt(body: bytes) -> int:
    return APPROXIMATE.count_prompt(read_prompt(body)).tokens


def meter(**options: Any) -> UsageMeter:
    made = UsageMeter(**options)
    made.sent(BODY)
    return made


# -- estimates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("x", 1, 1),
        ("The quick brown fox jumps over the lazy dog.", 8, 14),
        ("internationalization", 2, 5),
        ("1234567890", 3, 6),
        ("你好，世界", 3, 8),
        ('{"city": "Paris"}', 5, 12),
        ("    \n\n", 1, 2),
    ],
)
def test_an_estimate_is_of_the_right_size(text: str, least: int, most: int) -> None:
    assert least <= APPROXIMATE.count(text) <= most


@pytest.mark.parametrize(
    ("content", "least"),
    [("Hello there", 9), ([{"type": "text", "text": "Hello there"}, {"type": "image_url"}], 264), (None, 7), ("", 7)],
)
def test_the_prompt_is_estimated_by_its_messages(content: Any, least: int) -> None:
    body = {"messages": [{"role": "user", "content": content}], "other": "x" * 1000}
    assert least <= estimate_prompt(json.dumps(body).encode()) <= least + 3


@pytest.mark.parametrize("body", [b"not json", b'{"messages":5}', b'{"messages":[{"content":5}]}', b"\xff" * 20, b""])
def test_a_prompt_that_cannot_be_read_is_estimated_by_its_length(body: bytes) -> None:
    assert estimate_prompt(body) <= max(len(body), 1)


# -- the meter -----------------------------------------------------------------------------------------------------


def test_without_numbers_of_the_backend_all_is_estimated() -> None:
    counted = meter()
    counted.wrote("one two")
    counted.wrote(" three")
    total = counted.total()
    assert total is not None
    assert total["estimated"] is True
    assert total["completion_tokens"] == 3
    assert total["prompt_tokens"] == estimate_prompt(BODY)
    assert total["total_tokens"] == total["prompt_tokens"] + 3


def test_numbers_of_the_backend_win_and_keep_their_details() -> None:
    counted = meter()
    counted.wrote("one two three four five")
    given = {**USAGE, "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": None}
    assert counted.saw(given)
    assert counted.total() == given


def test_the_last_numbers_of_a_try_count() -> None:
    counted = meter()
    for tokens in (1, 2, 3):
        counted.saw({**USAGE, "completion_tokens": tokens, "total_tokens": 3 + tokens})
    assert counted.total() == {**USAGE, "completion_tokens": 3, "total_tokens": 6}


def test_gaps_are_filled() -> None:
    counted = meter()
    assert not counted.saw({"completion_tokens": 4})
    total = counted.total()
    assert total is not None
    assert total["completion_tokens"] == 4
    assert total["prompt_tokens"] == estimate_prompt(BODY)
    assert total["total_tokens"] == 4 + total["prompt_tokens"]
    assert total["estimated"] is True
    assert not counted.saw({"prompt_tokens": 1, "completion_tokens": 2})
    assert counted.total() == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize("usage", [None, 5, [], {}, {"completion_tokens": "4"}, {"completion_tokens": True}])
def test_what_is_no_usage_is_ignored(usage: Any) -> None:
    counted = meter()
    assert not counted.saw(usage)
    total = counted.total()
    assert total is not None
    assert total["estimated"] is True


def test_tries_add_up() -> None:
    counted = meter()
    counted.saw({**USAGE, "details": {"a": 1, "b": None}, "note": "x"})
    counted.next_try()
    assert not counted.saw({**USAGE, "details": {"a": 2, "c": 3}})
    assert counted.total() == {
        "prompt_tokens": 6,
        "completion_tokens": 8,
        "total_tokens": 14,
        "details": {"a": 3, "b": None, "c": 3},
        "note": "x",
    }


def test_a_try_that_was_estimated_says_so_in_the_sum() -> None:
    counted = meter()
    counted.wrote("one two")
    counted.next_try()
    counted.saw(USAGE)
    total = counted.total()
    assert total is not None
    assert total["estimated"] is True
    assert total["completion_tokens"] == 2 + 4
    assert total["total_tokens"] == total["prompt_tokens"] + 6


def test_nothing_is_counted_unless_wanted() -> None:
    counted = meter(count=False)
    counted.wrote("one two")
    assert counted.total() is None
    counted.next_try()
    counted.saw(USAGE)
    assert counted.total() == USAGE


def test_the_backends_numbers_are_ignored_where_we_are_to_count() -> None:
    counted = meter(known=False)
    counted.wrote("one two")
    assert not counted.saw(USAGE)
    total = counted.total()
    assert total is not None
    assert total["completion_tokens"] == 2


def test_counting_keeps_no_long_text() -> None:
    counted = meter()
    tracemalloc.start()
    for _ in range(500_000):
        counted.wrote("abcd" + " ")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000
    total = counted.total()
    assert total is not None
    assert 450_000 <= total["completion_tokens"] <= 550_000


# -- the tap -------------------------------------------------------------------------------------------------------

TEXT = (role(), *says("one", " two"), chunk({}, "stop"))


def tapped(body: bytes, size: int | None = None, limit: int | None = None) -> bytes:
    tap = UsageTap(meter(), limit)
    step = size or max(len(body), 1)
    return b"".join(tap.feed(body[at : at + step]) for at in range(0, len(body), step)) + tap.finish()


def both(body: bytes) -> bytes:
    """What leaves, whichever way it is cut."""
    out = tapped(body)
    assert {tapped(body, size) for size in (1, 2, 7, 50)} == {out}
    return out


def test_one_chunk_is_added_where_the_backend_counts_nothing() -> None:
    body = stream(*TEXT)
    out = both(body)
    assert out.startswith(body.removesuffix(DONE))
    answer = check_stream(out, include_usage=True)
    assert answer.usage is not None
    assert answer.usage["completion_tokens"] == 2
    assert answer.usage["estimated"] is True
    assert answer.chunks[-1] == {**HEAD, "choices": [], "usage": answer.usage}


def test_reasoning_counts() -> None:
    answer = check_stream(both(stream(role(), chunk({"reasoning": "one two three"}), *TEXT[1:])), include_usage=True)
    assert answer.usage is not None
    assert answer.usage["completion_tokens"] == 5


@pytest.mark.parametrize(
    "body",
    [
        stream(*TEXT, {**HEAD, "choices": [], "usage": USAGE}),
        stream({**HEAD, "choices": [], "usage": USAGE}, *TEXT),
        stream(*({**one, "usage": USAGE} for one in TEXT)),
        stream(*TEXT[:-1], {**TEXT[-1], "usage": USAGE}),
        stream(*TEXT, {"error": {"message": "boom"}}),
        stream(*TEXT, done=False),
        stream(*TEXT) + b": bye\n\n" + DONE,
        stream(),
        stream("nonsense", "{}", "[]", '{"choices":[]}'),
        b"data: {",
        b"",
    ],
    ids=["usage", "early", "each", "finish", "error", "no done", "after", "empty", "nonsense", "cut", "nothing"],
)
def test_bytes_pass_unchanged_where_nothing_is_to_be_added(body: bytes) -> None:
    out = both(body)
    if body.startswith(stream(*TEXT)):
        assert out.count(b'"usage"') == 1
        assert out.endswith(DONE + b": bye\n\n" + DONE)
    else:
        assert out == body


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_any_spelling_passes(end: bytes) -> None:
    body = b"\xef\xbb\xbf: hi\n\n" + stream(*TEXT, {**HEAD, "choices": [], "usage": USAGE})
    body = body.replace(b"\n", end)
    assert both(body) == body


def test_the_word_usage_in_text_is_no_usage() -> None:
    body = stream(role(), *says('"usage": {"x": 1}', "{'error': 1}", '"error"'), chunk({}, "stop"))
    assert b'"estimated":true' in both(body)
    assert b'"estimated":true' in both(stream(*({**one, "usage": None, "error": None} for one in TEXT)))


def test_an_event_that_never_ends_passes_without_being_kept() -> None:
    body = event(role()) + b"data: " + b"x" * 5000 + b"\n\n" + stream(*TEXT)
    for size in (1, 100, 900):
        assert tapped(body, size, limit=1000) == body
