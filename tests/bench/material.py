"""What is fed: chunks as vLLM writes them, prose, arguments, and requests with many tools."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

TOOL = "write_file"
_ROOT = Path(__file__).parents[2]


class Delta(msgspec.Struct):
    """The yardstick: what every client library reads of a chunk."""

    role: str | None = None
    content: str | None = None


class Choice(msgspec.Struct):
    index: int
    delta: Delta
    logprobs: Any = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    id: str
    object: str
    created: int
    model: str
    choices: list[Choice]
    usage: Any = None


PROSE = """\
The harbour was quiet that morning. A few gulls stood on the rail, and the ferry (the old one, with the red funnel) \
lay against the quay as if it had never left. "It won't sail before nine," the man at the counter said; he didn't \
look up. I had 40 minutes, two coins, and a letter that I'd promised to post before the end of the week.

There are three things to know about the crossing. First, it takes longer than the timetable says: plan for 2.5 \
hours, not 2. Second, the price is lower on weekdays, about 18 euros instead of 24, which is still more than it was. \
Third, and this is what most people forget, the café on board closes half an hour before arrival - so eat early.

Later, when the fog had lifted, we could see as far as the islands. They are low and green; on the largest, Ærø, \
there is a village with a church from the 13th century, and a bakery whose bread is known all over the coast. We \
walked there & back in an hour, past fields of barley, and talked about everything but the reason for our trip.

"Well?" she asked at last. "Will you tell him?" I said that I would, perhaps not today, but soon. It was 5 > 3 in \
favour, I joked, if one counted the dog. Nobody laughed. The wind had turned to the north-west and the first drops \
were falling.
"""
"""Plain prose. Nothing in it begins a marker of any family."""

CODE = '''\
"""Reads the measurements of one station and says what is wrong with them."""

import csv
from pathlib import Path


def read(path: Path, *, limit: int = 100) -> list[dict[str, float]]:
    """The first rows, as numbers. Raises ValueError for a row that has none."""
    rows = []
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if number >= limit:
                break
            rows.append({name: float(value) for name, value in row.items() if value != ""})
    return rows


def report(rows: list[dict[str, float]]) -> str:
    lines = [f"{len(rows)} rows"]
    for name in sorted({name for row in rows for name in row}):
        values = [row[name] for row in rows if name in row]
        lines.append(f"{name}\\t{min(values):.2f}\\t{max(values):.2f}")
    return "\\n".join(lines)
'''


def cut(text: str, size: int = 4, whole: Sequence[str] = ()) -> list[str]:
    """`text` in pieces: about a token each, as `size` is 4. Words of `whole` are one piece each."""
    parts = re.split("(" + "|".join(map(re.escape, whole)) + ")", text) if whole else [text]
    return [
        part[at : at + length]
        for part in parts
        for length in [max(len(part), 1) if part in whole else size]
        for at in range(0, len(part), length)
    ]


def payload(delta: dict[str, Any], *, logprobs: bool = False) -> bytes:
    """A chunk as vLLM writes it, without white space; about 230 bytes."""
    token = {"token": delta.get("content"), "logprob": -0.25, "bytes": [32, 97], "top_logprobs": []}
    choice = {"index": 0, "delta": delta, "logprobs": {"content": [token]} if logprobs else None, "finish_reason": None}
    chunk = {
        "id": "chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "object": "chat.completion.chunk",
        "created": 1_795_000_000,
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "choices": [choice],
    }
    return msgspec.json.encode(chunk)


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def events(texts: Iterable[str]) -> Iterator[bytes]:
    """An event for each piece of content."""
    return (event(payload({"content": text})) for text in texts)


ROLE = event(payload({"role": "assistant", "content": ""}))


def file_arguments(size: int = 4000) -> str:
    """The arguments that a coding agent's model writes most: one long string of source text."""
    content = "".join(itertools.islice(itertools.cycle(CODE), size))
    return json.dumps({"path": "src/stations/report.py", "content": content})


def field_arguments(size: int = 4000) -> str:
    """Arguments of many short values: what is worst for a reader of JSON."""
    rows = []
    written = 0
    for number in itertools.count():
        row = {"id": number, "name": f"station {number}", "at": [54.5 + number / 7, 10.25], "on": number % 3 == 0}
        rows.append(row)
        written += len(json.dumps(row)) + 2
        if written >= size:
            return json.dumps({"rows": rows})
    raise AssertionError


def call_text(format_name: str, arguments: str) -> tuple[str, str]:
    """(how a call begins, its arguments as the model writes them). `json-string`: they are a string in JSON."""
    if format_name == "hermes":
        return f'<tool_call>\n{{"name": "{TOOL}", "arguments": ', arguments
    written = json.dumps(arguments) if format_name == "json-string" else arguments
    return (
        f'```json\n{{"tool_calls": [{{"id": "call_1", "type": "function", "function": {{"name": "{TOOL}", "arguments": '
    ), written


def tools(count: int, note: str = "") -> list[dict[str, Any]]:
    """`count` tools of a real coding agent (25 of them are 17 kB); `note` makes them others than those before."""
    request = json.loads((_ROOT / "tests/clients_data/cline-02.json").read_text("utf-8"))
    body = request.get("body", request)
    given: list[dict[str, Any]] = body["tools"]
    made = []
    for number in range(count):
        function = dict(given[number % len(given)]["function"])
        if number >= len(given):
            function["name"] = f"{function['name']}_{number // len(given)}"
        if number == 0:
            function["description"] = f"{function.get('description', '')} {note}"
        made.append({"type": "function", "function": function})
    return made


def write_file_tool() -> dict[str, Any]:
    properties = {"path": {"type": "string"}, "content": {"type": "string"}, "rows": {"type": "array"}}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": TOOL, "description": "Write a file.", "parameters": parameters}}


def request(offered: list[dict[str, Any]] | None, **fields: Any) -> bytes:
    """A streamed request of a few messages."""
    messages = [
        {"role": "system", "content": "You are a careful assistant. " * 8},
        {"role": "user", "content": "What does the report of the station say, and is any of it wrong? " * 4},
    ]
    body = {"model": "m", "messages": messages, "stream": True, "temperature": 0.2, **fields}
    return json.dumps(body if offered is None else {**body, "tools": offered}).encode()


def readme() -> str:
    """Technical prose with code, markup and examples of calls in fences: this project's own README."""
    return re.sub(r"\s+\Z", "\n", (_ROOT / "README.md").read_text("utf-8"))
