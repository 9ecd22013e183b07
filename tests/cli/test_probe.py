"""What a backend says of itself, from servers that say it in their own ways."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.helpers.certificates import certificate_of, needs_openssl
from tests.helpers.fakes import serve
from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.cli._probe import Backend, describe, look
from toolcall_middleware.formats.template import sources
from toolcall_middleware.hosts.proxy.upstreams_file import ask


def server(answers: dict[str, Any]) -> Starlette:
    async def answer(request: Request) -> Response:
        given = answers.get(request.url.path)
        if callable(given):
            found = given(request)
            assert isinstance(found, Response)
            return found
        return PlainTextResponse("no", 404) if given is None else JSONResponse(given)

    return Starlette(routes=[Route("/{path:path}", answer)])


def models(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(rows)}


def test_vllm_tells_its_context() -> None:
    row = {"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 40960}
    with serve(server({"/v1/models": models(row)})) as url:
        found = look(f"{url}/v1", None)
        assert (found.server, found.models, found.context.get("Qwen/Qwen3-8B")) == ("vLLM", ["Qwen/Qwen3-8B"], 40960)
        assert describe(f"{url}/v1", "openai", found) == f"{url}/v1: vLLM, Qwen/Qwen3-8B (40,960 tokens)"


def test_llama_cpp_tells_it_elsewhere() -> None:
    answers = {
        "/v1/models": models({"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}),
        "/props": {"default_generation_settings": {"n_ctx": 4096}},
    }
    with serve(server(answers)) as url:
        found = look(f"{url}/v1", None)
    assert (found.server, found.context.get("m")) == ("llama.cpp", 4096)


@pytest.mark.parametrize("size", [0, -1, "4096", None])
def test_a_window_of_no_tokens_is_none(size: Any) -> None:
    """llama.cpp says 0 where the model's own window holds."""
    answers = {
        "/v1/models": models({"id": "m", "owned_by": "llamacpp"}),
        "/props": {"default_generation_settings": {"n_ctx": size}},
    }
    with serve(server(answers)) as url:
        assert look(f"{url}/v1", None).context.get("m") is None


def test_a_key_is_shown_and_many_models_are_counted() -> None:
    def listed(request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer k":
            return JSONResponse({}, 401)
        return JSONResponse(models(*({"id": f"m{number}"} for number in range(5))))

    with serve(server({"/v1/models": listed})) as url:
        assert look(f"{url}/v1", None).fault == "status 401"
        found = look(f"{url}/v1", "k")
    assert describe("http://x/v1", "openai", found) == "http://x/v1: OpenAI-compatible, m0, m1, m2 and 2 more"


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (lambda _: PlainTextResponse("hello"), "its answer is not JSON"),
        (lambda _: JSONResponse([1, {"id": 3}]), "it lists no models"),
        (lambda _: JSONResponse({"error": {"message": "Loading model"}}, 503), "status 503: Loading model"),
        (lambda _: JSONResponse({"error": {"message": "a\x1b[2J"}}, 503), "status 503"),
        (lambda _: PlainTextResponse("<html>Bad Gateway</html>", 502), "status 502"),
        (lambda _: JSONResponse({"error": {"message": "No such key: k"}}, 401), "status 401"),
        (lambda _: JSONResponse({"data": [{"id": 3}, "x", {"id": "a\x1b[2J"}]}), "it lists no models"),
        (lambda _: PlainTextResponse("x" * (9 << 20)), "its answer has more than 8 MiB"),
        (lambda _: PlainTextResponse("[" * 100_000), "its answer is not JSON"),
    ],
)
def test_what_is_no_list_of_models_is_told(answer: Any, fault: str) -> None:
    with serve(server({"/v1/models": answer})) as url:
        assert look(f"{url}/v1", None, seconds=20).fault == fault


@pytest.mark.parametrize(
    "odd", [b"NaN", b"-Infinity", b"1e999", rb'"\ud800"', b"1" * 400], ids=["nan", "infinity", "huge", "half", "long"]
)
def test_what_servers_write_for_json_is_read(odd: bytes) -> None:
    data = b'{"data": [{"id": "m", "owned_by": "vllm", "score": %s}]}' % odd
    answers = {
        "/v1/models": lambda _: Response(data),
        "/props": lambda _: Response(data[:-1] + b', "chat_template": "{{ messages }}"}'),
    }
    with serve(server(answers)) as url:
        assert look(f"{url}/v1", None).models == ["m"]
        ask(url, None)
        assert sources.find(url).template.source == "{{ messages }}"


def test_nobody_there_is_told_in_the_systems_words() -> None:
    assert look("http://127.0.0.1:9/v1", None).fault == "Connection refused"


def test_a_silent_backend_does_not_hold_the_start() -> None:
    def slow(_request: Request) -> Response:
        time.sleep(2)
        return JSONResponse(models())

    with serve(server({"/v1/models": slow})) as url:
        begin = time.monotonic()
        found = look(f"{url}/v1", None, seconds=0.3)
        assert time.monotonic() - begin < 1.9
        assert found.models == []
        assert found.fault is not None


def test_other_apis_are_named() -> None:
    assert describe("https://api.anthropic.com", "anthropic", None).endswith(": Anthropic's Messages API")
    assert describe(None, "openai", Backend()) == "None"


class _OneModel(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(models({"id": "m"})).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not into the test's output."""


@contextlib.contextmanager
def over_tls(context: Any) -> Iterator[str]:
    """A backend that shows a certificate of its own; gives its address."""
    with HTTPServer(("127.0.0.1", 0), _OneModel) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"https://localhost:{listening.server_port}/v1"
        listening.shutdown()


@needs_openssl
def test_a_private_certificate_is_trusted_where_requests_trust_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, context = certificate_of("localhost", tmp_path)
    with over_tls(context) as url:
        fault = look(url, None).fault
        assert fault is not None
        assert "certificate" in fault
        monkeypatch.setenv("SSL_CERT_FILE", str(shown))
        assert look(url, None).models == ["m"]


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("command", ["serve", "check", "launch env"])
def test_certificates_that_are_not_there_are_one_line_that_names_the_variable(
    command: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    missing = tmp_path / "nowhere.pem"
    monkeypatch.setenv(variable, str(missing))
    assert cli.main([*command.split(), "--upstream", "https://127.0.0.1:9/v1"]) == 2
    written = capsys.readouterr().err
    assert (written.startswith("toolcall-middleware: "), written.count("\n")) == (True, 1)
    assert f"{variable}: {str(missing)!r}" in written


def test_a_file_without_certificates_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("hello\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(empty))
    assert cli.main(["serve", "--upstream", "https://127.0.0.1:9/v1"]) == 2
    assert f"SSL_CERT_FILE: {str(empty)!r} cannot be read (it holds no certificate)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("::wrong", "HTTPS_PROXY: it is no address of a proxy; use http://HOST:PORT, https://HOST:PORT or socks5://"),
        ("other://user:secret@127.0.0.1:9", "HTTPS_PROXY: it is no address of a proxy"),
        (
            "socks5://user:secret@127.0.0.1:9",
            "HTTPS_PROXY: SOCKS needs the library socksio: pip install 'httpx[socks]'",
        ),
    ],
)
@pytest.mark.parametrize("command", ["serve", "check", "launch env --model m"])
def test_a_proxy_of_the_environment_that_cannot_be_used_is_one_line_that_names_the_variable(
    command: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("https_proxy", value)
    assert cli.main([*command.split(), "--upstream", "https://upstream.invalid/v1"]) == 2
    written = capsys.readouterr().err
    assert (written.startswith("toolcall-middleware: "), written.count("\n")) == (True, 1)
    assert says in written
    assert "secret" not in written
