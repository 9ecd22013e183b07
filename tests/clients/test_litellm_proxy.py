"""LiteLLM's own proxy, in front of the middleware and behind it, with the configuration of docs/how-to/beside.md."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.helpers.fakes import TextBackend, obedient_model
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder

from .common import ARGUMENTS, CALL, MODEL, QUESTION, TOOL, Lookup, need

if TYPE_CHECKING:
    from .conftest import OpenGateway, Stage

openai = need("openai")
need("litellm", extra=False)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "beside.md"
_SECONDS = 120  # until LiteLLM serves


@pytest.fixture(scope="module")
def proxy(stage: tuple[Stage, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of LiteLLM's proxy, with the documentation's configuration, in front of the server of all tests."""
    folder = tmp_path_factory.mktemp("litellm")
    program = Path(sys.executable).with_name("litellm")
    if not program.exists() or importlib.util.find_spec("backoff") is None:  # of its extra `proxy`
        pytest.skip("LiteLLM's proxy is not installed: pip install 'litellm[proxy]'")
    (text,) = re.findall(r"<!-- file: litellm -->\n```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    config = folder / "litellm.yaml"
    text = text.replace("http://127.0.0.1:8080", stage[1]).replace("NAME", MODEL)
    config.write_text(f"{text}general_settings: {{dangerously_permit_weak_or_unset_master_key: true}}\n", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text("utf-8")  # noqa: PT018
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_litellms_proxy_passes_tools_on_and_calls_back(
    open_gateway: OpenGateway, lookup: Lookup, proxy: str, *, stream: bool
) -> None:
    open_gateway(obedient_model("json", CALL), format="json")
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=proxy, api_key="unused") as client:
        for _turn in range(2):
            fields: dict[str, Any] = {"model": "local", "messages": messages, "tools": [TOOL]}
            if stream:
                with client.chat.completions.stream(**fields) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**fields).choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or []:
                result = lookup.run(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert message.content == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]


@pytest.mark.slow
async def test_a_text_backend_behind_litellms_proxy_gets_tool_calls(stage: tuple[Stage, str], proxy: str) -> None:
    stage[0].app = TextBackend(obedient_model("json", CALL), strict=True)
    body = {"model": "local", "messages": [{"role": "user", "content": QUESTION}], "tools": [TOOL]}
    transport = httpx.ASGITransport(ToolCallMiddleware(Forwarder(f"{proxy}/v1", Settings(upstream_timeout=60))))
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        answer = (await client.post("/v1/chat/completions", json=body, timeout=60)).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
