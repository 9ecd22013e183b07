"""Time a chunk that a face adds: what the same stream costs more on Messages and Responses than as a chat completion,
with all that sends it. Answers of a face always hold the usage, so the chat completion is asked for it, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from toolcall_middleware import ToolCallMiddleware

from . import material, measure
from .chunks import Case, arguments_case
from .report import Table

_FUNCTION = material.write_file_tool()["function"]
_HEAD: dict[str, Any] = {"model": "m", "stream": True}
_ASKED = "What does the report of the station say, and is any of it wrong? " * 4
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Messages": (
        "/v1/messages",
        {
            **_HEAD,
            "max_tokens": 4096,
            "messages": [{"role": "user", "content": _ASKED}],
            "tools": [{"name": _FUNCTION["name"], "input_schema": _FUNCTION["parameters"]}],
        },
    ),
    "Responses": (
        "/v1/responses",
        {**_HEAD, "input": _ASKED, "tools": [{"type": "function", **_FUNCTION}]},
    ),
}
"""By API: where a request goes, and its body. The same tool and text as those of chat completions."""


def run(*, smoke: bool) -> Table:
    repeats, size = (2, 400) if smoke else (400, 1200)
    table = Table("Time a chunk that a face adds", ("added ns a chunk", "x one typed decode"))
    text = (material.PROSE * (1 + size // len(material.PROSE)))[:size]
    given = material.file_arguments(size)
    for api, (path, body) in REQUESTS.items():
        for what, case, written in (
            ("prose", Case(["Hello", " there", ". "], text), ""),
            ("arguments, a long string", arguments_case("json", given), given),
            ("arguments, short values", arguments_case("json", material.field_arguments(size)), ""),
        ):
            _case(table, f"{api}, {what}", case, measure.Client(json.dumps(body).encode(), path=path), repeats, written)
    return table


def _case(table: Table, what: str, case: Case, client: measure.Client, repeats: int, written: str) -> None:
    app = ToolCallMiddleware(case.stream, format="json", faces="chat,messages,responses")
    kept = measure.Client(client.body, path=client.path, keep=True)
    measure.RUNNER.run(kept.ask(app))
    _check(b"".join(kept.got), written)

    def on_face() -> float:
        measure.RUNNER.run(client.ask(app))
        return case.stream.seconds

    asked = material.request([material.write_file_tool()], stream_options={"include_usage": True})
    chat = case.run(app, asked)
    runs: list[Callable[[], float]] = [chat, on_face, case.decode()]
    chat_time, face_time, decode_time = measure.best(runs, repeats)
    added = face_time - chat_time
    table.add(what, f"{added / len(case.pieces) * 1e9:.0f}", f"{added / decode_time:.2f}", "")


def _check(answer: bytes, written: str) -> None:
    """What is timed is also right: events of the face, and in them what the model wrote."""
    events = [json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: {")]
    said = "".join(_text(one) for one in events)
    if not said or (written and not said.startswith(written[:-32])):
        raise AssertionError(f"the answer did not arrive: {said[:100]!r}")


def _text(event: dict[str, Any]) -> str:
    delta = event.get("delta", "")
    if isinstance(delta, dict):
        delta = delta.get("partial_json") or delta.get("text") or ""
    return delta if event["type"].endswith("delta") else ""
