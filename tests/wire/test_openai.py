"""Chunks as bytes: what nobody looks at keeps its spelling, and errors of every form keep their text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from toolcall_middleware.errors import ErrorBody
from toolcall_middleware.wire import openai
from toolcall_middleware.wire.openai import frame_of_delta

from ..response.streams import chunk

ODD = b'{"big":123456789012345678901234567890,"f":1.0,"e":1e5,"z":-0.0,"u":"\\u00fc\\/","o":{"b":1,"a":[ 1 , 2 ]}}'


def test_values_that_nobody_reads_keep_their_spelling() -> None:
    fields = openai.read_object(ODD)
    assert fields is not None
    assert msgspec.json.encode(fields) == ODD
    assert openai.read_objects(b"[" + ODD + b"," + ODD + b"]") == [fields, fields]


@pytest.mark.parametrize("data", [b"", b"[1]", b"null", b'"x"', b"{", b'{"a":1}x', b'{"a":' + b"[" * 100_000, b"\xff"])
def test_what_is_no_object_is_none(data: bytes) -> None:
    assert openai.read_object(data) is None
    assert openai.read_objects(data) is None
    assert openai.read_object(None) is None


def test_strings_and_other_values_are_told_apart() -> None:
    assert openai.read_text(b'"a\\n\\u00fc"') == "a\nü"
    assert openai.read_text(b"null") is None
    assert openai.read_text(b"[1]") is None
    assert openai.read_text(None) is None
    assert openai.read_value(b"[1,2.5]") == [1, 2.5]
    assert openai.read_value(b"nope") is None
    assert openai.read_value(None) is None


def test_what_engines_write_that_is_no_json_is_read_too() -> None:
    """Python writes NaN and infinities, JavaScript half an emoji, and a cut token is broken UTF-8."""
    fields = openai.read_object(b'{"logprob":-Infinity,"p":NaN,"text":"\\ud83d","n":1}')
    assert fields is not None
    assert bytes(fields["logprob"]) == b"null"
    assert bytes(fields["text"]) == b'"\\ud83d"'
    assert openai.read_text(fields["text"]) == "\ud83d"
    assert openai.read_text(b'"a\xffb"') == "a\N{REPLACEMENT CHARACTER}b"
    choices = openai.read_objects(b'[{"logprob":NaN}]')
    assert choices == [{"logprob": msgspec.Raw(b"null")}]
    assert openai.read_objects(b"[NaN]") is None


def test_half_an_emoji_is_written_as_an_escape() -> None:
    assert openai.encode("x\ud83d") == b'"x\\ud83d"'
    assert openai.encode("ü") == '"ü"'.encode()
    assert bytes(openai.raw({"a": ["\udc00"]})) == b'{"a": ["\\udc00"]}'


def test_a_frame_keeps_everything_but_delta_finish_and_usage() -> None:
    top = openai.read_object(b'{"id":"x","odd":' + ODD + b',"usage":{"a":1},"choices":[],"last":1e5}')
    choice = openai.read_object(b'{"finish_reason":"stop","index":3,"delta":{"old":1},"token_ids":[1]}')
    assert top is not None
    assert choice is not None
    event = b'{"content":"new"}'.join(frame_of_delta(top, choice))
    assert event == (
        b'data: {"id":"x","odd":' + ODD + b',"choices":[{"finish_reason":null,"index":3,'
        b'"delta":{"content":"new"},"token_ids":[1]}],"last":1e5}\n\n'
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"m","type":"BadRequestError","param":"p","code":400}}', "m"),  # vLLM
        (b'{"object":"error","message":"m","type":"BadRequestError","param":"p","code":400}', "m"),  # vLLM, older
        (b'{"detail":"m"}', "m"),  # FastAPI
        (b'{"detail":[{"loc":["body"],"msg":"m"}]}', '[{"loc":["body"],"msg":"m"}]'),
        (b'{"error":"m"}', "m"),
        (b'{"error":true,"message":"m"}', "m"),
        (b'{"message":"m"}', "m"),
        (b"m", "m"),
        (b"<html>m</html>", "m"),
        (b'["m"]', '["m"]'),
        (b'{"error":{"reason":"m"}}', '{"reason":"m"}'),
        (b'{"error":{}}', '{"error":{}}'),
        (b'{"errors":["m"]}', '{"errors":["m"]}'),
        (b'[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]', "m"),  # Google's OpenAI API
        (b'{"result":null,"success":false,"errors":[{"code":5007,"message":"m"}],"messages":[]}', "m"),  # Cloudflare
        (b"", "The backend answered with status 418 and no text."),
        (b"  \n", "The backend answered with status 418 and no text."),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b'{"error":{"message":"\\ud83d"}}', "\ud83d"),
    ],
)
def test_errors_of_every_form_keep_their_text(body: bytes, message: str) -> None:
    error = openai.read_error(body, 418)
    assert (error.message, error.status) == (message, 418)
    shown = json.loads(error.body())
    assert set(shown) == {"error"}
    assert set(shown["error"]) >= {"message", "type", "param", "code"}
    assert shown["error"]["message"] == message


def test_only_a_small_error_carries_its_json() -> None:
    """A client that reads slowly would hold it: of a body of 6 MiB it took 135 MiB."""
    for size, carries in ((100, True), (10_000, False)):
        written = json.dumps({"error": {"message": "m", "details": [[]] * size}}).encode()
        read = openai.parsed_error(written)
        bodies = read, openai.read_error(read, 400).body()
        assert [isinstance(body, ErrorBody) for body in bodies] == [carries, carries]
        assert read == written
        assert [openai.error_value(body)["error"]["message"] for body in bodies] == ["m", "m"]


def test_an_error_keeps_its_own_type_param_code_and_more() -> None:
    body = b'{"error":{"message":"m","type":"t","param":"tools[0]","code":"c","n_ctx":512}}'
    assert json.loads(openai.read_error(body, 400).body()) == json.loads(body)


def test_an_error_without_type_gets_one_by_its_status() -> None:
    assert openai.read_error(b"{}", 404).type == "invalid_request_error"
    assert openai.read_error(b"{}", 503).type == "upstream_error"


def test_a_long_error_page_is_cut() -> None:
    assert len(openai.read_error(b"x" * 100_000, 500).message) == 4000


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (400, 400), (503, 503), (200, 502), (True, 502), ("upstream_timeout", 504), ("x", 502), (None, 502), (1.5, 502),
        ("429", 429), ("1113", 502), ("200", 502),
    ],
)  # fmt: skip
def test_the_code_of_an_error_in_a_stream_is_its_status(code: Any, status: int) -> None:
    assert openai.read_error(json.dumps({"error": {"message": "m", "code": code}}).encode()).status == status


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("plain <b>text</b>", "plain <b>text</b>"),
        ("<html><body>Bad Gateway</body></html>", "Bad Gateway"),
        ("<!DOCTYPE html>\n<title>a &lt; b</title>\n<h1>a &lt; b</h1>c  d", "a < b; c d"),
        ("<html><script>never ends <p>x", ""),
        ("<HTML><STYLE>x</STYLE>y", "y"),
    ],
)
def test_an_html_page_is_its_words(page: str, words: str) -> None:
    assert openai.words_of(page) == words


def test_a_hostile_page_is_read_up_to_a_bound() -> None:
    for piece in ("<script>", "<", "<p", "&lt", "<script>x</script>"):
        assert len(openai.words_of("<html>" + piece * 200_000)) <= 17_000


# -- chunks that hold text alone ------------------------------------------------------------------------------------


def read_by_type(data: bytes) -> tuple[int, str] | None:
    try:
        choice = openai.read_by_type(data).choices[0]
    except openai.FAILURES:
        return None
    return choice.index, choice.delta.content


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (0, "a")),
        ({"usage": None, "system_fingerprint": "x"}, (0, "a")),
        ({"usage": {"prompt_tokens": 1}}, None),
        ({"error": {"message": "x"}}, None),
        ({"x": 1, "timings": {"n": 1}}, (0, "a")),
        ({"choices": []}, None),
        ({"choices": [*chunk({"content": "a"})["choices"]] * 2}, None),
        ({"choices": [{"index": 1.0, "delta": {"content": "a"}}]}, None),
        ({"choices": [{"index": True, "delta": {"content": "a"}}]}, None),
        ({"choices": [{"delta": {"content": "a"}}]}, None),
        ({"choices": [{"index": 3, "delta": {"content": "a"}, "token_ids": [1], "finish_reason": ""}]}, (3, "a")),
    ],
)
def test_only_a_chunk_that_says_nothing_else_is_read_so(changed: dict[str, Any], expected: Any) -> None:
    assert read_by_type(json.dumps({**chunk({"content": "a"}), **changed}).encode()) == expected


NULLS = dict.fromkeys(("reasoning", "reasoning_content", "tool_calls", "function_call", "refusal"))


def test_what_is_null_in_a_delta_says_nothing() -> None:
    delta = {"role": "assistant", "content": "a", **NULLS}
    assert read_by_type(json.dumps(chunk(delta)).encode()) == (0, "a")


@pytest.mark.parametrize(
    "delta",
    [{"content": None}, {"content": "a", "x": 1}, *({"content": "a", name: "b"} for name in NULLS), {}],
)
def test_another_delta_is_not_read_so(delta: dict[str, Any]) -> None:
    assert read_by_type(json.dumps(chunk(delta)).encode()) is None


def test_an_end_is_not_read_so() -> None:
    assert read_by_type(json.dumps(chunk({"content": "a"}, "stop")).encode()) is None
    assert read_by_type(b"[DONE]") is None
    assert read_by_type(b'{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":NaN}]}') is None
