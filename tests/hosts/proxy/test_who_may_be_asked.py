"""Which paths and models the operator's key opens, and to whom a client's own key is shown."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from tests.helpers.asgi_client import JSON_TYPE, Backend
from toolcall_middleware import Settings
from toolcall_middleware.hosts.proxy.app import Proxy

from .proxy_servers import ask as drive
from .proxy_servers import scope_of, serving
from .routing import Proxies, ask, chat, table


class Noting(Backend):
    """An upstream that notes what it was asked; `busy` answers 503."""

    def __init__(self, *, busy: bool = False) -> None:
        super().__init__(b'{"object": "list", "data": [{"id": "m", "object": "model"}]}', headers=[JSON_TYPE])
        self.busy = busy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.status = 503 if self.busy and scope.get("method") == "POST" else 200
        await super().__call__(scope, receive, send)

    @property
    def asked(self) -> list[str]:
        return [scope["path"] for scope in self.scopes]

    @property
    def heads(self) -> list[str]:
        return [f"{scope['method']} {scope['query_string']!r} {scope['headers']!r}" for scope in self.scopes]

    @property
    def keys(self) -> list[bytes | None]:
        heads = [dict(scope["headers"]) for scope in self.scopes]
        return [headers.get(b"authorization", headers.get(b"x-api-key")) for headers in heads]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/models/ft:mine"), ("PUT", "/v1/models/m"), ("POST", "/models/unload"),
        ("POST", "/V1//Models/load"), ("PURGE", "/v1/models"), ("delete", "/v1/models/m"),
    ],
)  # fmt: skip
async def test_nobody_changes_what_is_listed_with_the_operators_key(method: str, path: str) -> None:
    upstream = Noting()
    answer = await drive(Proxy(upstream, Settings()), scope_of(path, method=method))
    assert answer.status == 405
    assert json.loads(answer.body)["error"]["code"] == "method_not_allowed"
    everything = Settings(forward_paths="*")
    assert (await drive(Proxy(Noting(), everything), scope_of(path, method=method))).status == 200


REFUSED_PATHS = [
    "/v1/organization/admin_api_keys", "/v1/organization/../chat/completions",
    "/v1/chat/completions/../../organization",
    "/v1/files", "/v1/fine_tuning/jobs", "/slots", "/metrics", "/props", "/v1/load_lora_adapter", "/api/pull",
    "/v1/models/..%2forganization", "/v1/embeddings/%252e%252e/files", "/v1/responses/..;/files",
]  # fmt: skip


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("path", REFUSED_PATHS)
async def test_paths_of_administration_are_not_forwarded(path: str, method: str) -> None:
    upstream = Noting()
    scope = scope_of(unquote(path), method=method, raw_path=path.encode())
    answer = await drive(Proxy(upstream, Settings()), scope)
    assert answer.status in {400, 404}
    assert "code" in json.loads(answer.body)["error"]
    assert not upstream.asked


@pytest.mark.parametrize("path", ["/v1/embeddings", "/tokenize", "/health", "/v1/chat/completions", "/v1//rerank"])
async def test_what_inference_servers_offer_is_forwarded(proxies: Proxies, path: str) -> None:
    upstream = Noting()
    async with serving(upstream) as address, proxies.running(table(f"{address}/v1")) as client:
        assert (await client.post(path, json={"input": "x"})).status_code == 200
    assert len(upstream.asked) == 1


def form(name: str, value: str) -> dict[str, Any]:
    body = f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n--x--\r\n'
    return {"content": body.encode(), "headers": {"content-type": "multipart/form-data; boundary=x"}}


def typed(kind: str, body: bytes) -> dict[str, Any]:
    return {"content": body, "headers": {"content-type": kind}}


HIDDEN: dict[str, dict[str, Any]] = {
    "json": {"json": chat("secret")},
    "multipart": form("model", "secret"),
    "multipart, another case": form("Model", "secret"),
    "a form": {"data": {"model": "secret"}},
    "BOM": {"content": b"\xef\xbb\xbf" + json.dumps(chat("secret")).encode()},
    "UTF-16": {"content": json.dumps(chat("secret")).encode("utf-16")},
    "UTF-32": {"content": json.dumps(chat("secret")).encode("utf-32-be")},
    "UTF-7": {
        "content": b'{"model": "open", "messages": [], "+AG0-odel": "secret"}',
        "headers": {"content-type": "application/json; charset=utf-7"},
    },
    "a form in UTF-16": {
        "content": "model=secret".encode("utf-16"),
        "headers": {"content-type": "application/x-www-form-urlencoded; charset=utf-16"},
    },
    "Model": {"json": {"Model": "secret", "messages": []}},
    "first of two": {"content": b'{"model": "secret", "messages": [], "model": "open"}'},
    "last of two": {"content": b'{"model": "open", "messages": [], "mod\\u0065l": "secret"}'},
    "a list": {"json": [chat("secret")]},
    "a list of models": {"json": {"model": ["secret"], "messages": []}},
    "in the query": {"json": {"messages": []}, "params": {"model": "secret"}},
    "broken JSON": {"content": b'{"model": "secret", "messages": []'},
    "JSON as a multipart form": typed("multipart/form-data; boundary=x", json.dumps(chat("secret")).encode()),
    "JSON as a form": typed("application/x-www-form-urlencoded", b" \r\n" + json.dumps(chat("secret")).encode()),
    "UTF-16 as a form": typed("application/x-www-form-urlencoded", json.dumps(chat("secret")).encode("utf-16")),
    "a list as a form": typed("multipart/mixed", json.dumps([chat("secret")]).encode()),
    "a form within JSON": typed("application/x-www-form-urlencoded", b'{"model": "open", "x": "&model=secret"}'),
    "broken JSON as a form": typed("multipart/form-data; boundary=x", b'{"model": "secret", "messages": []'),
    "a form as JSON": typed("application/json", b"model=secret"),
}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET"])
@pytest.mark.parametrize("kind", HIDDEN)
async def test_a_model_that_is_not_listed_is_refused_in_every_encoding(
    proxies: Proxies, kind: str, method: str
) -> None:
    upstream = Noting()
    async with (
        serving(upstream) as address,
        proxies.running(table(f"{address}/v1", models=["open"], key="sk-operators-own")) as client,
    ):
        answer = await client.request(method, "/v1/embeddings", **HIDDEN[kind])
    assert answer.status_code in {400, 404}
    assert not upstream.asked


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/plain"])
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses"]
)
async def test_what_a_body_is_does_not_depend_on_its_content_type(proxies: Proxies, kind: str, path: str) -> None:
    upstream = Noting()
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "1"}], "input": "1"}
    async with (
        serving(upstream) as address,
        proxies.running(table(f"{address}/v1", models=["open"], rename={"own": "theirs"}, key="sk-own")) as client,
    ):
        for model in ("secret", "own"):
            given = typed(kind, json.dumps({"model": model, **body}).encode())
            answer = await client.post(path, **given)
            assert (answer.status_code == 404) == (model == "secret")
    assert [json.loads(body)["model"] for body in upstream.raw] == ["theirs"]


async def test_the_model_of_a_form_says_who_answers_and_is_renamed(proxies: Proxies) -> None:
    one, two = Noting(), Noting()
    async with serving(one) as first, serving(two) as second:
        tables = table(f"{first}/v1", models=["a"]), table(f"{second}/v1", rename={"ears": "whisper"})
        async with proxies.running(*tables) as client:
            files = {"file": ("a.wav", b"RIFF\r\n\r\nmodel")}
            answer = await client.post("/v1/audio/transcriptions", files=files, data={"model": "ears"})
    assert answer.status_code == 200
    assert not one.asked
    assert b"\r\n\r\nwhisper\r\n" in two.raw[0]


KEYS_OF_GATEWAYS = ("x-litellm-api-key", "Ocp-Apim-Subscription-Key", "x-auth-token", "x-amz-security-token", "cookie")


@pytest.mark.parametrize("names", [("authorization",), ("x-api-key",), KEYS_OF_GATEWAYS], ids=lambda names: names[0])
@pytest.mark.parametrize("operators", ["sk-operators-own", None])
async def test_a_clients_key_of_any_name_is_not_shown_to_another_upstream(
    proxies: Proxies, operators: str | None, names: tuple[str, ...]
) -> None:
    one, two = Noting(busy=True), Noting()
    keys = {} if operators is None else {"key": operators}
    async with serving(one) as first, serving(two) as second:
        tables = table(f"{first}/v1", name="one", **keys), table(f"{second}/v1", name="two", **keys)
        async with proxies.running(*tables, upstream_retries="0") as client:
            client.headers = httpx.Headers(dict.fromkeys(names, "Bearer sk-clients-own") | {"x-trace": "kept"})
            client.params = httpx.QueryParams(
                {"api-version": "1", "api_key": "sk-clients-own", "key": "sk-clients-own"}
            )
            assert (await ask(client)).status_code == 200
            assert (await client.get("/v1/models")).status_code == 200
    assert "POST" in two.heads[0]
    assert "kept" in two.heads[0]
    assert "api-version=1" in two.heads[0]
    assert not any("sk-clients-own" in head for head in two.heads)
    assert "sk-clients-own" in one.heads[0]
    assert operators or not any(two.keys)
    assert operators or names != ("authorization",) or b"Bearer sk-clients-own" in one.keys


WHO_ASKS = (
    "authorization", "x-api-key", "api-key", "cookie", "openai-project", "x-litellm-api-key", "x-user-id", "x-tenant",
)  # fmt: skip


@pytest.mark.parametrize("header", WHO_ASKS)
@pytest.mark.parametrize("operators", [{}, {"key": "sk-operators-own"}], ids=["none", "own"])
async def test_the_list_of_models_is_for_who_asks_by_what_reaches_the_upstream(
    proxies: Proxies, header: str, operators: dict[str, str]
) -> None:
    upstream = Noting()
    async with serving(upstream) as address, proxies.running(table(f"{address}/v1", **operators)) as client:
        for key in ("of-one", "of-two", "of-one"):
            await client.get("/v1/models", headers={header: key})
    reaches = not operators or header not in {"authorization", "x-api-key", "api-key", "cookie"}
    assert any("of-two" in head for head in upstream.heads) == reaches
    assert len(upstream.asked) == (2 if reaches else 1)


async def test_what_changes_with_each_request_makes_no_list_anew(proxies: Proxies) -> None:
    upstream = Noting()
    async with serving(upstream) as address, proxies.running(table(f"{address}/v1")) as client:
        for number in "123":
            changing = {
                "x-request-id": number,
                "traceparent": number,
                "x-forwarded-for": number,
                "x-stainless-os": number,
            }
            await client.get("/v1/models", headers=changing)
    assert len(upstream.asked) == 1
