"""Each golden case as an answer of a backend: streamed and whole, the client gets the same, and what is expected."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.formats import goldens
from tests.formats.goldens import Case
from tests.helpers.driven import Driven
from tests.helpers.stream_rules import Answered, check_stream, check_whole, same_answer
from tests.helpers.thorough import THOROUGH
from tests.response.streams import DONE, chunk, completion, role, says
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory


def offered(case: Case) -> list[dict[str, Any]]:
    """The case's tools, or one for each name that it expects to be called."""
    if case.tools:
        return case.tools
    names = {call["name"] for call in case.expected_tool_calls or () if call.get("name")}
    return [{"type": "function", "function": {"name": name}} for name in sorted(names or {"f"})]


def request(case: Case, *, stream: bool) -> bytes:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": offered(case), "stream": stream}
    return json.dumps(body).encode()


def chunks(case: Case, reason: str) -> bytes:
    rng = random.Random(case.id)
    pieces: list[str] = []
    at = 0
    while at < len(case.text):
        size = rng.choice((1, 2, 4, 7))
        pieces.append(case.text[at : at + size])
        at += size
    said = [role(), *says(*pieces), chunk({}, reason)]
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in said) + DONE


def sent(case: Case, settings: Settings, reason: str) -> bytes:
    exchange = Driven(settings, BackendMemory())
    assert exchange.on_request(request(case, stream=True)) is not None
    return exchange.streams(chunks(case, reason))


def streamed(case: Case, settings: Settings, reason: str) -> Answered:
    return check_stream(sent(case, settings, reason), objects=False)


def collected(case: Case, settings: Settings, reason: str) -> Answered:
    exchange = Driven(settings, BackendMemory())
    assert exchange.on_request(request(case, stream=False)) is not None
    return check_whole(exchange.answers(completion(case.text, reason)).body, objects=False)


@pytest.mark.parametrize("reader", ["explicit", "auto"])
@pytest.mark.parametrize("name", goldens.formats())
def test_every_case_comes_out_the_same_streamed_and_whole(name: str, reader: str) -> None:
    settings = Settings(format=name if reader == "explicit" else "auto")
    failed: list[str] = []
    # `auto` reads with the same readers: half of the cases show that it finds them.
    step = 1 if reader == "explicit" or THOROUGH else 2
    for case in goldens.load(name)[::step]:
        if case.options or case.expected_stop is not None:
            continue  # of the parser alone
        reason = "length" if case.cut or case.partial else "stop"
        try:
            stream = streamed(case, settings, reason)
            same_answer(stream, collected(case, settings, reason))
            if case.tier == "core" and case.expected_tool_calls is not None and not (reader == "auto" and case.auto):
                got = [call.name for call in stream.choices[0].calls]
                wanted = [call["name"] for call in case.expected_tool_calls]
                if None not in wanted:
                    assert got == wanted, f"calls {got}, wanted {wanted}"
        except AssertionError as error:
            failed.append(f"{case.id}: {error}")
    assert not failed, f"{len(failed)} failed\n" + "\n".join(failed[:5])
