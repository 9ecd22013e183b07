"""The log by the standard tree: calls and decisions, as JSON where that is asked for; no content in it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.helpers.asgi_client import Client, ask
from tests.helpers.fakes import TextBackend, serve, write_calls
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.observe.json_log import JsonFormatter

CALL = write_calls("hermes", ("weather", {"city": "Paris"}))
BAD = CALL.replace("}}", ",}}")
LOGGER = "toolcall_middleware"


def rows(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    formatter = JsonFormatter()
    return [json.loads(formatter.format(record)) for record in caplog.records if record.name == LOGGER]


async def test_a_call_is_a_line_with_its_fields_by_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    await Client(ask()).run(ToolCallMiddleware(TextBackend([CALL]), mode="prompt", format="hermes"))
    (call,) = [row for row in rows(caplog) if row.get("event") == "call"]
    assert (call["tool"], call["outcome"], call["model"], call["level"]) == ("weather", "clean", "m", "info")
    assert (call["mode"], call["format"]) == ("prompt", "hermes")
    assert call["message"].startswith("call: model=")
    assert "Paris" not in json.dumps(rows(caplog))


async def test_decisions_are_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    app = ToolCallMiddleware(TextBackend(["Paris it is.", CALL]), mode="prompt", format="hermes", constrain="off")
    await Client(ask(tool_choice="required")).run(app)
    decided = [row for row in rows(caplog) if row.get("event") == "decision"]
    assert [row["what"] for row in decided] == ["format", "mode", "constraint", "ask again", "mode", "constraint"]
    assert [row["value"] for row in decided if row["what"] == "ask again"] == ["no_call"]
    assert "Paris" not in json.dumps(decided)


async def test_why_it_was_asked_again_has_no_word_of_the_models(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    app = ToolCallMiddleware(
        TextBackend([BAD, CALL]), mode="prompt", format="hermes", malformed_arguments="error",
        validate_arguments="retry", constrain="off",
    )  # fmt: skip
    await Client(ask()).run(app)
    assert "Paris" not in json.dumps([row for row in rows(caplog) if row.get("event") == "decision"])


def test_an_exception_and_odd_text_are_one_line() -> None:
    try:
        int("a\nb")
    except ValueError:
        record = logging.LogRecord(LOGGER, logging.ERROR, "x", 1, "it \u2028 %s", ("\n\x1b[2J",), sys.exc_info())
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert line.isascii()
    assert json.loads(line)["exception"].partition("ValueError: ")[1]


@pytest.mark.server
def test_the_proxys_log_is_json_when_asked() -> None:
    with serve(TextBackend([CALL])) as backend:
        process = subprocess.Popen(
            [sys.executable, "-m", LOGGER, "serve", "--upstream", f"{backend}/v1", "--port", "0",
             "--set", "access_log=json", "--mode", "prompt", "--format", "hermes", "--log-level", "debug"],
            env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        address = process.stderr.readline().split()[2]
        transport = httpx.HTTPTransport(retries=8)
        with httpx.Client(transport=transport, timeout=20) as client:
            client.post(f"{address}/chat/completions", content=ask(), headers={"content-type": "application/json"})
        process.send_signal(signal.SIGINT)
        out, log = process.communicate(timeout=20)
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"call", "decision"} <= {line.get("event") for line in lines}
    assert [json.loads(line)["calls"] for line in out.splitlines()] == [1]
