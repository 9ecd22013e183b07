"""Google's answers as OpenAI's, whole and streamed. They are made of the official SDK's types."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from google.genai import types

from tests.apis import translated
from tests.apis.translated import DONE, chunks, stream_of, streamed_by, whole_by
from tests.helpers.google_fake import Answer, answer, call, events, text, usage, wire
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware.apis.google.translation import GoogleTranslation
from toolcall_middleware.apis.upstream import Translation
from toolcall_middleware.errors import ToolCallError

SIGNATURE = b"a signature"
SIGNED = {"google": {"thought_signature": base64.urlsafe_b64encode(SIGNATURE).decode()}}


def begun(**fields: Any) -> Translation:
    return translated.begun(GoogleTranslation(), "gemini-3-pro", **fields)


def whole(one: Answer) -> dict[str, Any]:
    return whole_by(begun(), wire(one))


def streamed(data: bytes, **fields: Any) -> bytes:
    return streamed_by(begun(stream=True, **fields), data)


# -- whole answers -------------------------------------------------------------------------------------------------


def test_text_thoughts_and_usage() -> None:
    made = whole(answer(text("Hm.", thought=True), text("Hel"), text("lo", signature=SIGNATURE), usage=usage()))
    assert made["id"] == "chatcmpl-r1"
    assert made["model"] == "gemini-test-001"
    choice = made["choices"][0]
    assert choice["message"] == {
        "role": "assistant", "content": "Hello", "reasoning": "Hm.", "extra_content": SIGNED
    }  # fmt: skip
    assert (choice["finish_reason"], choice["native_finish_reason"]) == ("stop", "STOP")
    assert made["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 8,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }


def test_calls_get_ids_where_google_gave_none() -> None:
    made = whole(
        answer(
            call("f", None, SIGNATURE, x={"y": [1, "ä"]}),
            call("f", "given-1"),
            call("f", "given-1"),
            call("f", "odd id\n"),
            call("f", "x" * 65),
        )
    )
    choice = made["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    calls = choice["message"]["tool_calls"]
    assert calls[0] == {
        "id": calls[0]["id"],
        "type": "function",
        "function": {"name": "f", "arguments": '{"x":{"y":[1,"ä"]}}'},
        "extra_content": SIGNED,
    }
    ids = [one["id"] for one in calls]
    assert ids[1] == "given-1"
    assert len(set(ids)) == 5
    assert all(re.fullmatch(r"call_[a-zA-Z0-9]{24}", one) for one in [ids[0], *ids[2:]])
    assert [one["function"]["arguments"] for one in calls[1:]] == ["{}"] * 4


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"), ("PROHIBITED_CONTENT", "content_filter"), ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"), ("LANGUAGE", "content_filter"), ("OTHER", "content_filter"),
    ],
)  # fmt: skip
def test_finish_reasons(reason: str, expected: str) -> None:
    made = whole(answer(text("So"), reason=reason))["choices"][0]
    assert (made["finish_reason"], made["native_finish_reason"]) == (expected, reason)
    last = chunks(streamed(events(answer(text("So"), reason=reason))))[-1]["choices"][0]
    assert (last["finish_reason"], last["native_finish_reason"]) == (expected, reason)


def test_every_reason_that_the_sdk_knows_has_a_word() -> None:
    for reason in types.FinishReason:
        try:
            said = whole(answer(text("So"), reason=reason.value))["choices"][0]["finish_reason"]
        except ToolCallError as error:
            assert reason.value in error.message  # noqa: PT017 - one of two good ends
        else:
            assert said in {"stop", "length", "content_filter"}


@pytest.mark.parametrize(
    ("reason", "code", "status"),
    [
        ("MALFORMED_FUNCTION_CALL", "malformed_tool_arguments", 422),
        ("UNEXPECTED_TOOL_CALL", "unknown_tool_call", 422),
        ("MISSING_THOUGHT_SIGNATURE", "invalid_request", 400),
        ("MALFORMED_RESPONSE", "upstream_error", 502),
    ],
)
def test_ends_that_are_faults_are_told_apart(reason: str, code: str, status: int) -> None:
    one = answer(text("So"), reason=reason, message="print(f(")
    with pytest.raises(ToolCallError, match=r"print\(f\(") as caught:
        begun().whole(200, wire(one))
    assert (caught.value.code, caught.value.status) == (code, status)
    made = chunks(streamed(events(one)))
    assert made[0]["choices"][0]["delta"]["content"] == "So"
    assert made[-1]["error"]["code"] == code
    assert reason in made[-1]["error"]["message"]


def test_a_call_beside_a_fault_never_leaves() -> None:
    one = answer(text("So"), call("f", x=1), reason="MALFORMED_FUNCTION_CALL")
    made = chunks(streamed(events(one)))
    assert not any("tool_calls" in choice["delta"] for chunk in made for choice in chunk.get("choices", ()))
    assert made[-1]["error"]["code"] == "malformed_tool_arguments"


# Candidates as the API's reference and its users show them, without what they leave out, and what is read of each.
DOCUMENTED: list[tuple[dict[str, Any], str | None, list[str], str]] = [
    # ai.google.dev/gemini-api/docs/function-calling: one call, without an id
    (
        {"content": {"parts": [{"functionCall": {"name": "get_temperature", "args": {"location": "London"}}}],
                     "role": "model"},
         "finishReason": "STOP", "avgLogprobs": -0.02},
        None, ["get_temperature"], "tool_calls",
    ),
    # /thought-signatures: of parallel calls the first is signed; calls of newer models have ids
    (
        {"content": {"role": "model", "parts": [
            {"functionCall": {"name": "check_flight", "args": {"flight": "AA100"}, "id": "8f2b1a3c"},
             "thoughtSignature": "QUJDRA=="},
            {"functionCall": {"name": "book_taxi", "args": {"time": "10 AM"}, "id": "c0ffee42"}}]},
         "finishReason": "STOP", "index": 0, "finishMessage": "Model generated function call(s)."},
        None, ["check_flight", "book_taxi"], "tool_calls",
    ),
    # a thought summary, and a signature with the answer's last part
    (
        {"content": {"role": "model", "parts": [
            {"text": "**Counting**\n", "thought": True},
            {"text": "1+1 equals 2.", "thoughtSignature": "EjQKMgEM"}]},
         "finishReason": "STOP",
         "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}],
         "citationMetadata": {"citationSources": [{"startIndex": 1, "endIndex": 2, "uri": "https://x.y"}]}},
        "1+1 equals 2.", [], "stop",
    ),
    # the limit was spent on thinking: a candidate without parts
    ({"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}, "", [], "length"),
    (
        {"finishReason": "SAFETY", "index": 0, "safetyRatings": [
            {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}]},
        "", [], "content_filter",
    ),
]  # fmt: skip
MORE = {
    "usageMetadata": {"promptTokenCount": 62, "totalTokenCount": 70, "thoughtsTokenCount": 8,
                      "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 62}]},
    "modelVersion": "gemini-2.5-flash", "responseId": "Il0taoSYJ5Cez7",
}  # fmt: skip


@pytest.mark.parametrize(("recorded", "content", "names", "reason"), DOCUMENTED)
def test_documented_answers(recorded: Any, content: str | None, names: list[str], reason: str) -> None:
    data = json.dumps({"candidates": [recorded], **MORE}).encode()
    choice = json.loads(begun().whole(200, data)[1])["choices"][0]
    assert choice["message"]["content"] == content
    assert [one["function"]["name"] for one in choice["message"].get("tool_calls", ())] == names
    assert choice["finish_reason"] == reason
    text_, _, calls, reasons = folded(streamed(b"data: " + data + b"\r\n\r\n"))
    assert (text_, [one[0] for one in calls], reasons) == (content or "", names, [reason])


@pytest.mark.parametrize("reason", [None, "", 5, 1.5, True, [], ["STOP"], {"a": 1}])
def test_a_whole_answer_ends_also_where_its_reason_is_no_text(reason: Any) -> None:
    candidate = {"content": {"parts": [{"text": "a"}]}, "finishReason": reason}
    choice = json.loads(begun().whole(200, json.dumps({"candidates": [candidate]}).encode())[1])["choices"][0]
    assert (choice["finish_reason"], choice["native_finish_reason"]) == ("stop", "STOP")


def test_a_chunk_has_the_model_and_the_choice_of_its_own_event() -> None:
    sent = [("gemini-a", 0), ("gemini-a", 1), ("gemini-b", 0), ("gemini-b", 1), ("gemini-a", 1)]
    data = b"".join(
        b"data: %s\r\n\r\n"
        % json.dumps(
            {"modelVersion": model, "candidates": [{"index": index, "content": {"parts": [{"text": model}]}}]}
        ).encode()
        for model, index in sent
    )
    got = chunks(stream_of(begun(stream=True, n=2)).feed(data) + DONE)
    assert [(one["model"], one["choices"][0]["index"]) for one in got] == sent
    assert [one["choices"][0]["delta"]["content"] for one in got] == [model for model, _ in sent]


def test_a_prompt_that_is_blocked_is_a_filtered_answer() -> None:
    feedback = types.GenerateContentResponsePromptFeedback(
        block_reason=types.BlockedReason.SAFETY, block_reason_message="No."
    )
    blocked = Answer(prompt_feedback=feedback, usage_metadata=usage(candidates=0, thoughts=0))
    choice = whole(blocked)["choices"][0]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"] == {
        "role": "assistant", "content": None, "refusal": "The prompt was blocked (SAFETY): No."
    }  # fmt: skip
    made = chunks(streamed(events(blocked)))
    assert made[0]["choices"][0]["delta"]["refusal"] == "The prompt was blocked (SAFETY): No."
    assert made[-1]["choices"][0]["finish_reason"] == "content_filter"


def test_several_candidates() -> None:
    both = Answer(candidates=[(answer(text(word), index=place).candidates or [])[0] for place, word in enumerate("ab")])
    assert [(one["index"], one["message"]["content"]) for one in whole(both)["choices"]] == [(0, "a"), (1, "b")]
    parts = [answer(text("a"), reason=None), answer(text("b"), reason=None, index=1), answer(index=1), answer()]
    checked = check_stream(streamed(events(*parts), n=2), tools=set(), n=2)
    assert [choice.content for choice in checked.choices] == ["a", "b"]


# -- streams -------------------------------------------------------------------------------------------------------

PIECES = [
    answer(text("Hm ", thought=True), reason=None, usage=usage(candidates=0)),
    answer(text("so.", thought=True), reason=None),
    answer(text("Grüße 😀 "), reason=None),
    answer(text("both."), call("f", None, SIGNATURE, city="Köln", n=1), reason=None),
    answer(call("g", "given-2"), reason=None),
    answer(text("", signature=SIGNATURE), usage=usage()),
]


def folded(data: bytes) -> tuple[Any, ...]:
    """What a client makes of a stream; generated ids differ."""
    content, reasoning, calls, reasons = "", "", [], []
    for one in chunks(data):
        for choice in one["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            reasoning += delta.get("reasoning") or ""
            for part in delta.get("tool_calls", ()):
                if "id" in part:
                    calls.append([part["function"]["name"], "", part.get("extra_content")])
                calls[part["index"]][1] += part["function"]["arguments"]
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    return content, reasoning, calls, reasons


EXPECTED = (
    "Grüße 😀 both.",
    "Hm so.",
    [["f", '{"city":"Köln","n":1}', SIGNED], ["g", "{}", None]],
    ["tool_calls"],
)


def test_a_stream_keeps_the_rules_and_says_what_the_whole_answer_says() -> None:
    bare = [one.model_copy(deep=True) for one in PIECES]
    for one in bare:
        for part in (one.candidates or [])[0].content.parts:  # type: ignore[union-attr]
            part.thought_signature = None
    checked = check_stream(streamed(events(*bare)), tools={"f", "g"}, own_ids=False).choices[0]
    assert checked.finish_reason == "tool_calls"
    assert [one.name for one in checked.calls] == ["f", "g"]
    parts = [part for one in bare for part in (one.candidates or [])[0].content.parts]  # type: ignore[union-attr]
    said = check_whole(
        begun().whole(200, wire(answer(*parts, usage=usage())))[1], tools={"f", "g"}, own_ids=False
    ).choices[0]
    assert (said.content, [(one.name, one.parsed) for one in said.calls]) == (
        checked.content,
        [(one.name, one.parsed) for one in checked.calls],
    )


def test_each_piece_leaves_as_it_arrives() -> None:
    translation = stream_of(begun(stream=True))
    for piece, word in ((PIECES[0], b"Hm "), (PIECES[2], "Grüße".encode()), (PIECES[3], b'"f"')):
        assert word in translation.feed(events(piece))


def test_a_stream_that_broke_off_after_its_end_is_complete() -> None:
    translation = stream_of(begun(stream=True))
    translation.feed(events(*PIECES))
    assert translation.finish(cut=True) == DONE
    of_two = stream_of(begun(stream=True, n=2))
    of_two.feed(events(*PIECES))
    assert of_two.finish(cut=True) == b""  # the other candidate never began


@pytest.mark.parametrize("listed", [False, True])
def test_an_error_in_the_stream_ends_it(listed: bool) -> None:
    error: Any = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}
    data = events(PIECES[2]) + b"data: " + json.dumps([error] if listed else error).encode() + b"\r\n\r\n"
    made = chunks(streamed(data + events(PIECES[3])))
    assert made[-1]["error"]["message"] == "Overloaded."
    assert made[-1]["error"]["code"] == "UNAVAILABLE"
    assert folded(streamed(events(PIECES[2])[:0] + events(*PIECES)))[0]  # a good one still is


def test_nonsense_in_the_stream_ends_it() -> None:
    made = chunks(streamed(b"data: <html>\n\n" + events(PIECES[2])))
    assert [one["error"]["code"] for one in made] == ["upstream_error"]


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (429, "invalid_request_error"), (503, "upstream_error")]
)
def test_errors_keep_their_status_and_text(status: int, kind: str, listed: bool) -> None:
    violation = {"field": "contents", "description": "d"}
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]
    error: Any = {"error": {"code": status, "message": "Why.", "status": "NAME", "details": details}}
    code, body = begun().whole(status, json.dumps([error] if listed else error).encode())
    assert code == status
    assert json.loads(body)["error"] == {
        "message": "Why.",
        "type": kind,
        "param": "contents",
        "code": "NAME",
        "details": details,
    }


@pytest.mark.parametrize("said", [b"Bad gateway", b"<html><h1>Bad gateway</h1></html>"])
def test_an_error_without_a_form_keeps_its_words(said: bytes) -> None:
    status, body = begun().whole(502, said)
    assert status == 502
    assert json.loads(body)["error"]["message"] == "Bad gateway"


def test_images_are_those_of_a_chat_message() -> None:
    drawn = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG"))
    sound = types.Part(inline_data=types.Blob(mime_type="audio/wav", data=b"RIFF"))
    one = answer(text("Here:"), drawn, sound, drawn)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    message = whole(one)["choices"][0]["message"]
    assert (message["content"], message["images"]) == ("Here:", [image, image])
    said = [chunk["choices"][0]["delta"] for chunk in chunks(streamed(events(one)))]
    assert [found for delta in said for found in delta.get("images", [])] == [image, image]
