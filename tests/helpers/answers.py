"""What a client gets for what a model says, through the whole middleware: a case a line, asked whole and streamed.

CASES = cases(
    case("prose passes", "Hi.", content="Hi.", finish="stop"),
    case("a call is checked", BAD, code="invalid_tool_arguments", validate_arguments="error"),
)

@CASES
async def test_answers(one: Case) -> None:
    await check(one)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.helpers import asgi_client
from tests.helpers.fakes import TextBackend, write_calls
from tests.helpers.stream_rules import Answered, check_error, check_stream, check_whole, same_answer
from tests.response.streams import DONE, chunk, completion
from toolcall_middleware import ToolCallMiddleware

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
}
HISTORIC = {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}
HISTORY = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [HISTORIC]}]
GOOD = write_calls("hermes", ("f", {"x": 3}))
BAD = write_calls("hermes", ("f", {"x": "no"}))
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
_UNASKED: Any = object()


class NativeBackend:
    """Takes tools and answers with calls of its own, in the way that `deltas` say; records the bodies."""

    def __init__(self, *deltas: dict[str, Any], finish: str | None = "stop", **whole: Any) -> None:
        """whole: more fields of a whole answer."""
        self.deltas = deltas
        self.finish = finish
        self.whole = whole
        self.bodies: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            received = await receive()
            body += received.get("body", b"")
            if not received.get("more_body"):
                break
        request = json.loads(body)
        self.bodies.append(request)
        if request.get("stream"):
            chunks = [*map(chunk, self.deltas), chunk({}, self.finish)]
            out = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks) + DONE
            kind = b"text/event-stream"
        else:
            message = {name: value for delta in self.deltas for name, value in delta.items()}
            out = completion(message, self.finish, **self.whole)
            kind = b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": out})


def own(arguments: Any = '{"x": 1}', name: str = "f", index: int = 0, **more: Any) -> dict[str, Any]:
    """A backend's own call, as an entry of `tool_calls`."""
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"chatcmpl-tool-{index}", "type": "function", "function": function, **more}


def calling(*calls: dict[str, Any], content: str | None = None, finish: str | None = "stop") -> NativeBackend:
    """A backend that makes these calls by itself."""
    delta: dict[str, Any] = {"tool_calls": list(calls)}
    return NativeBackend(*([] if content is None else [{"content": content}]), delta, finish=finish)


async def post(app: Any, **fields: Any) -> httpx.Response:
    """The answer to a request with TOOL."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL], **fields}
    return await asgi_client.post(app, body)


def read(response: httpx.Response, **expected: Any) -> Answered:
    """The answer, which keeps the rules of the wire."""
    assert response.status_code == 200, response.text
    check = check_stream if response.headers["content-type"].startswith("text/event-stream") else check_whole
    return check(response.content, **expected)


def answered(response: httpx.Response, **expected: Any) -> Any:
    """The answer's first choice."""
    return read(response, **expected).choices[0]


def refusal(response: httpx.Response) -> Any:
    """The error that the answer is, or ends in."""
    if response.status_code != 200:
        # No client should send the same request again for what the model wrote.
        assert response.status_code != 422 or response.headers["x-should-retry"] == "false"
        return check_error(response.content)
    return check_stream(response.content, error=True, own_ids=False).error or {}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a model says to a request, and what a client gets.

    said: a text, an `Answer`, a list of them for one request after another, or a `NativeBackend`. asked: fields of the
    request. rules: of the wire, for the checker.

    Expected are calls (names and arguments), content (an empty one is as none) and finish_reason; or the error's code,
    its status (of a stream too: nothing was sent before), its param and what its message says. head: a part of the
    whole answer's `x-toolcall`, behind which a semicolon is added. tries: requests that reach the backend.
    """

    said: Any
    settings: Mapping[str, Any]
    asked: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    calls: Sequence[tuple[str, str]] = _UNASKED
    content: str | None = _UNASKED
    finish: str = ""
    code: str = ""
    status: int = 0
    param: str = ""
    says: str | tuple[str, ...] = ()
    head: str = ""
    tries: int = 0


def case(name: str, said: Any, **given: Any) -> Any:
    """A row of `cases`. given: fields of `Case`, and settings."""
    fields = {key: given.pop(key) for key in list(given) if key in Case.__dataclass_fields__}
    return pytest.param(Case(said=said, settings=given, **fields), id=name)


def cases(*rows: Any) -> pytest.MarkDecorator:
    """Rows as a test's parameter `one`."""
    return pytest.mark.parametrize("one", rows)


async def check(one: Case) -> None:
    """Asks for the whole answer and for the stream, which say the same."""
    got = []
    for stream in (False, True):
        said = one.said if isinstance(one.said, list) else [one.said]
        backend = one.said if isinstance(one.said, NativeBackend) else TextBackend(list(said))
        before = len(backend.bodies)
        response = await post(ToolCallMiddleware(backend, **one.settings), stream=stream, **one.asked)
        assert not one.tries or len(backend.bodies) - before == one.tries
        if one.code:
            error = refusal(response)
            assert error["code"] == one.code
            assert response.status_code == (one.status or response.status_code)
            assert error["param"] == (one.param or error["param"])
            says = (one.says,) if isinstance(one.says, str) else one.says
            assert [words for words in says if words not in error["message"]] == []
            continue
        answer = read(response, **{"own_ids": one.settings.get("mode") in {None, "prompt"}, **one.rules})
        got.append(answer)
        choice = answer.choices[0]
        assert one.calls is _UNASKED or choice.named_calls == list(one.calls)
        assert one.content is _UNASKED or (choice.content or None) == (one.content or None)
        assert choice.finish_reason == (one.finish or choice.finish_reason)
        assert stream or one.head in response.headers["x-toolcall"] + ";"
    if got:
        same_answer(*got)
