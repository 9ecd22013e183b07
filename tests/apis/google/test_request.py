"""Requests for Google: the place of each field. Each is read by the official types and by the API's known rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.google_fake import check
from toolcall_middleware.apis.google import request
from toolcall_middleware.apis.google.request import NO_SIGNATURE
from toolcall_middleware.apis.google.translation import GoogleTranslation
from toolcall_middleware.apis.turns import NO_RESULT
from toolcall_middleware.apis.upstream import TranslatedRequest
from toolcall_middleware.errors import ToolCallError

HELLO = [{"role": "user", "content": "hi"}]
PNG = "iVBORw0KGgo="


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}", "parameters": parameters}}


def called(*calls: tuple[str, str, str], **fields: Any) -> dict[str, Any]:
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return {"role": "assistant", "content": None, "tool_calls": made, **fields}


def result(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


def translated(**fields: Any) -> TranslatedRequest:
    return GoogleTranslation().request(json.dumps({"model": "gemini-3-pro", "messages": HELLO, **fields}).encode())


def sent(**fields: Any) -> dict[str, Any]:
    """The body, checked."""
    request = translated(**fields)
    body: dict[str, Any] = json.loads(request.body)
    check(body, str(fields.get("model", "gemini-3-pro")))
    return body


def refused(code: str, param: str, **fields: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        translated(**fields)
    assert (caught.value.code, caught.value.status, caught.value.param) == (code, 400, param)
    return caught.value


# -- where it goes -------------------------------------------------------------------------------------------------


def test_the_model_and_the_method_stand_in_the_path() -> None:
    whole = translated()
    assert (whole.path, whole.query, whole.method) == ("/v1beta/models/gemini-3-pro:generateContent", b"", "POST")
    stream = translated(stream=True, model="models/gemini-2.5-flash-lite")
    assert stream.path == "/v1beta/models/gemini-2.5-flash-lite:streamGenerateContent"
    assert stream.query == b"alt=sse"
    assert translated(model="tunedModels/mine-1").path.startswith("/v1beta/tunedModels/mine-1:")
    assert "model" not in json.loads(whole.body)


@pytest.mark.parametrize(
    "model", ["", "../x", "a/b", "models/", "x?y", "x%2f", "x y", "a..b", "é", "x:generate", ".", "a" * 200, 7, None]
)
def test_a_model_that_has_no_place_in_a_path_is_refused(model: Any) -> None:
    refused("invalid_request", "model", model=model)


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(ToolCallError, match="JSON object"):
        GoogleTranslation().request(b"[1]")
    refused("invalid_tool_call_id", "messages[0].tool_call_id", messages=[result("a", "x"), called(("a", "f", "{}"))])
    refused("invalid_request", "messages", messages=[{"role": "user", "content": ""}])


# -- messages ------------------------------------------------------------------------------------------------------


def said(role: str, content: Any, signature: str = "") -> dict[str, Any]:
    extra = {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}
    return {"role": role, "content": content, **extra}


def by(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def words(text: str, **fields: Any) -> dict[str, Any]:
    return {"text": text, **fields}


def calls(name: str, args: dict[str, Any] | None = None, signature: str = "", **own: Any) -> dict[str, Any]:
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {**own, "name": name, "args": args or {}}, **signed}


def gives(name: str, *, parts: list[Any] | None = None, own: dict[str, Any] | None = None, **fields: Any) -> Any:
    answer = {**(own or {}), "name": name, "response": fields}
    return {"functionResponse": {**answer, "parts": parts} if parts else answer}


SIGNED = called(("a", "f", "{}"), ("b", "g", "{}"))
SIGNED["tool_calls"][0] |= {"extra_content": {"google": {"thought_signature": "QUJD"}}}
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
DRAWN = {"inlineData": {"mimeType": "image/png", "data": PNG}}
A, B = ("call_" + letter * 24 for letter in "ab")
HISTORIES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]] | None]] = {
    "roles and the system instruction": (
        [said("system", "Be brief."), said("developer", [{"type": "text", "text": "Be kind."}]), said("user", "a"),
         said("user", [{"type": "text", "text": "b"}]), said("assistant", "c"), said("assistant", ""),
         said("user", "d")],
        [by("user", words("a"), words("b")), by("model", words("c")), by("user", words("d"))],
        [words("Be brief."), words("Be kind.")],
    ),
    "instructions alone are the user's": ([said("system", "Say hi.")], [by("user", words("Say hi."))], None),
    "parts": (
        [said("user", [
            IMAGE, {"type": "image_url", "image_url": {"url": "https://example.com/a.JPG?x=1"}},
            {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
            {"type": "text", "text": "what?"}])],
        [by("user", DRAWN, {"fileData": {"fileUri": "https://example.com/a.JPG?x=1", "mimeType": "image/jpeg"}},
            {"inlineData": {"mimeType": "audio/wav", "data": PNG}},
            {"inlineData": {"mimeType": "application/pdf", "data": PNG}}, words("what?"))],
        None,
    ),
    "calls and results match by name and order": (
        [*HELLO, {**called((A, "get", '{"x": 1}'), (B, "get", ""), ("g-1", "put", "[2]")), "content": "Wait."},
         result("g-1", "third"), said("user", "meanwhile"), result(B, {"a": [1]}), result(A, "first", is_error=True),
         said("user", "and?")],
        [by("user", words("hi")),
         by("model", words("Wait."), calls("get", {"x": 1}, NO_SIGNATURE), calls("get"),
            calls("put", {"arguments": [2]}, id="g-1")),
         by("user", gives("get", error="first"), gives("get", result={"a": [1]}),
            gives("put", own={"id": "g-1"}, result="third")),
         by("user", words("meanwhile"), words("and?"))],
        None,
    ),
    # Other backends need none; Google counts.
    "a call without a result gets one that says so": (
        [*HELLO, called((A, "f", "{}"), (B, "g", "{}")), result(B, "ok")],
        [by("user", words("hi")), by("model", calls("f", {}, NO_SIGNATURE), calls("g")),
         by("user", gives("f", error=NO_RESULT), gives("g", result="ok"))],
        None,
    ),
    "two results of one call are one": (
        [*HELLO, called((A, "f", "{}")), result(A, "x"), result(A, "y")],
        [by("user", words("hi")), by("model", calls("f", {}, NO_SIGNATURE)), by("user", gives("f", result=["x", "y"]))],
        None,
    ),
    "an image in a result": (
        [*HELLO, called((A, "f", "{}")), result(A, [{"type": "text", "text": "Look"}, IMAGE])],
        [by("user", words("hi")), by("model", calls("f", {}, NO_SIGNATURE)),
         by("user", gives("f", parts=[DRAWN], result="Look"))],
        None,
    ),
    "signatures go back where they came from": (
        [*HELLO, SIGNED, result("a", "1"), result("b", "2"), said("assistant", "Done.", "REVG"), said("user", "?"),
         said("assistant", None, "R0hJ")],
        [by("user", words("hi")), by("model", calls("f", {}, "QUJD", id="a"), calls("g", id="b")),
         by("user", gives("f", own={"id": "a"}, result="1"), gives("g", own={"id": "b"}, result="2")),
         by("model", words("Done.", thoughtSignature="REVG")), by("user", words("?")),
         by("model", words("", thoughtSignature="R0hJ"))],
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_messages_are_contents(name: str) -> None:
    messages, contents, system = HISTORIES[name]
    expected = {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}
    assert sent(messages=messages) == expected


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,???"}}, ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "ftp://x/y"}}, ".image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}, ".image_url.url"),
        ({"type": "file", "file": {"file_id": "file-1"}}, ".file"),
        ({"type": "input_audio", "input_audio": {"data": PNG, "format": "midi"}}, ""),
        ({"type": "odd"}, ""),
        ("text", ""),
    ],
)
def test_a_part_that_cannot_be_sent_is_refused(part: Any, where: str) -> None:
    refused("invalid_request", f"messages[0].content[0]{where}", messages=[{"role": "user", "content": [part]}])


def test_an_image_is_no_system_instruction() -> None:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    refused("invalid_request", "messages[0].content", messages=[{"role": "system", "content": [part]}, *HELLO])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": {"b": [1, 2.5, null]}}', {"a": {"b": [1, 2.5, None]}}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": ', {"arguments": '{"a": '}),
        ("null", {"arguments": "null"}),
        ('"x"', {"arguments": "x"}),
    ],
)
def test_arguments_are_an_object(arguments: Any, expected: Any) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = sent(messages=[*HELLO, {"role": "assistant", "tool_calls": [call]}, result("a", "x")])
    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == expected


@pytest.mark.parametrize(
    ("model", "signed"),
    [
        ("gemini-3-pro-preview", True), ("gemini-3.5-flash", True), ("gemini-flash-latest", True),
        ("gemini-2.5-pro", False), ("gemini-2.0-flash", False), ("gemini-1.5-pro", False), ("gemma-3-27b-it", False),
        ("gemini-20-pro", True),
    ],
)  # fmt: skip
def test_only_models_that_refuse_bare_calls_get_a_signature_that_stands_in(model: str, signed: bool) -> None:
    body = sent(model=model, messages=[*HELLO, called(("a", "f", "{}")), result("a", "x")])
    assert body["contents"][1]["parts"][0].get("thoughtSignature") == (NO_SIGNATURE if signed else None)


# -- tools ---------------------------------------------------------------------------------------------------------


def test_tools_are_declarations() -> None:
    body = sent(tools=[tool("f", x={"type": "integer"}), tool("g")])
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "f",
                    "description": "Does f",
                    "parametersJsonSchema": {"type": "object", "properties": {"x": {"type": "integer"}}},
                },
                {"name": "g", "description": "Does g"},
            ]
        }
    ]
    assert "toolConfig" not in body


@pytest.mark.parametrize(
    ("choice", "config", "declared"),
    [
        ("auto", None, ["f", "g"]),
        ("none", {"mode": "NONE"}, ["f", "g"]),
        ("required", {"mode": "ANY"}, ["f", "g"]),
        (
            {"type": "function", "function": {"name": "g"}},
            {"mode": "ANY", "allowedFunctionNames": ["g"]},
            ["f", "g"],
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]},
            },
            {"mode": "ANY", "allowedFunctionNames": ["g"]},
            ["f", "g"],
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]},
            },
            None,
            ["g"],
        ),
    ],
)
def test_tool_choice(choice: Any, config: Any, declared: list[str]) -> None:
    body = sent(tools=[tool("f"), tool("g")], tool_choice=choice, parallel_tool_calls=False)
    assert body.get("toolConfig") == ({"functionCallingConfig": config} if config else None)
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == declared


def test_a_choice_of_a_tool_that_is_not_there_is_refused() -> None:
    choice = {"type": "function", "function": {"name": "h"}}
    refused("invalid_tool_choice", "tool_choice", tools=[tool("f")], tool_choice=choice)
    refused("invalid_request", "tool_choice", tools=[tool("f")], tool_choice="any")


def test_a_schema_that_cannot_be_said_names_the_tool_and_the_place() -> None:
    bad = tool("g", x={"type": "object", "properties": {"y": {"not": {}}}})
    error = refused(
        "tool_schema_incompatible", "tools[1].function.parameters.properties.x.properties.y.not", tools=[tool("f"), bad]
    )
    body = json.loads(error.body())["error"]
    assert (body["type"], body["incompatible_features"], body["tool"]) == ("semantic_error", ["not"], "g")


@pytest.mark.parametrize("name", ["4o", "-x", "a/b", "a" * 129])
def test_a_name_that_the_api_refuses_is_refused_here(name: str) -> None:
    error = refused("tool_schema_incompatible", "tools[0].function.name", tools=[tool(name)])
    assert error.extra["incompatible_features"] == ["name"]


def test_a_custom_tool_takes_its_input_as_a_string() -> None:
    call = {"id": "a", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    body = sent(
        tools=[{"type": "custom", "custom": {"name": "run", "description": "Runs"}}],
        messages=[*HELLO, {"role": "assistant", "tool_calls": [call]}, result("a", "x")],
    )
    parameters = body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
    assert (parameters["required"], list(parameters["properties"])) == (["input"], ["input"])
    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"input": "ls"}


# -- the generation config -----------------------------------------------------------------------------------------


def test_the_generation_config() -> None:
    body = sent(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_tokens=5,
        max_completion_tokens=9,
        n=2,
        seed=2**40 + 3,
        stop=["a", "", "b"],
        presence_penalty=1,
        frequency_penalty=-1,
        user="me",
        metadata={"a": "b"},
    )
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "maxOutputTokens": 9,
        "candidateCount": 2,
        "seed": 3,
        "stopSequences": ["a", "b"],
        "presencePenalty": 1,
        "frequencyPenalty": -1,
    }


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gemini-3-pro", "low", {"thinkingLevel": "LOW"}),
        ("gemini-3-flash", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "high", {"thinkingBudget": 24576}),
        ("gemini-2.0-flash", "high", None),
        ("gemma-3-27b-it", "low", None),
    ],
)
def test_reasoning_effort(model: str, effort: str, expected: Any) -> None:
    assert sent(model=model, reasoning_effort=effort).get("generationConfig", {}).get("thinkingConfig") == expected


def test_thoughts_are_shown_to_those_who_ask() -> None:
    assert sent(include_reasoning=True)["generationConfig"]["thinkingConfig"] == {"includeThoughts": True}
    own = {"google": {"thinking_config": {"include_thoughts": True, "thinking_budget": 80}, "cached_content": "c/1"}}
    body = sent(extra_body=own)
    assert body["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, "thinkingBudget": 80}
    assert body["cachedContent"] == "c/1"


def test_response_formats() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    made = sent(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    assert made["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }
    assert sent(response_format={"type": "json_object"})["generationConfig"] == {"responseMimeType": "application/json"}
    assert "generationConfig" not in sent(response_format={"type": "text"})
    odd = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"$ref": "#"}}}
    refused("tool_schema_incompatible", "response_format.json_schema.schema.$ref", response_format=odd)
    refused("invalid_request", "response_format", response_format={"type": "xml"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stop", list("abcdef")), ("logprobs", True), ("logit_bias", {"1": 2}), ("modalities", ["text", "audio"]),
        ("temperature", "hot"), ("max_tokens", 0), ("seed", "x"), ("n", 1.5), ("reasoning_effort", "huge"),
        ("reasoning_effort", ["low"]), ("reasoning_effort", {}), ("web_search_options", {}),
    ],
)  # fmt: skip
def test_what_google_has_nothing_for_is_refused_and_not_lost(field: str, value: Any) -> None:
    refused("invalid_request", field, **{field: value})


@pytest.mark.parametrize("kind", [{}, [], ["function"], 5])
def test_a_tool_whose_type_is_no_text_is_refused(kind: Any) -> None:
    refused("invalid_request", "tools[0]", tools=[{"type": kind, "function": {"name": "f"}}])


def test_half_an_emoji_can_be_sent() -> None:
    body = b'{"model": "gemini-3-pro", "messages": [{"role": "user", "content": "\\ud83d"}]}'
    assert json.loads(GoogleTranslation().request(body).body)["contents"][0]["parts"] == [{"text": "\ud83d"}]


# -- models --------------------------------------------------------------------------------------------------------


def test_models() -> None:
    translation = GoogleTranslation()
    request = translation.models(None)
    assert (request.method, request.path, request.query) == ("GET", "/v1beta/models", b"pageSize=1000")
    status, body = translation.whole(200, b'{"models": [{"name": "models/gemini-x"}, {"name": "tunedModels/y"}]}')
    assert status == 200
    assert [model["id"] for model in json.loads(body)["data"]] == ["gemini-x", "tunedModels/y"]
    one = GoogleTranslation()
    assert one.models("gemini-x").path == "/v1beta/models/gemini-x"
    assert json.loads(one.whole(200, b'{"name": "models/gemini-x"}')[1])["id"] == "gemini-x"
    with pytest.raises(ToolCallError):
        GoogleTranslation().models("../secrets")


def test_the_same_tools_are_translated_once() -> None:
    """Agents send them at every turn; a list of fifty costs as much as the rest of a hundred requests."""
    tools = [tool(f"f{number}", **{f"p{at}": {"type": ["string", "null"]} for at in range(9)}) for number in range(50)]
    first = translated(tools=tools).body
    before = request._kept.cache_info().hits
    assert translated(tools=tools).body == first
    assert request._kept.cache_info().hits == before + 1
    assert translated(tools=[]).body == translated().body
    refused("invalid_request", "tools", tools={"a": 1})
    refused("tool_schema_incompatible", "tools[0].function.name", tools=[tool("4")])
    refused("tool_schema_incompatible", "tools[0].function.name", tools=[tool("4")])
