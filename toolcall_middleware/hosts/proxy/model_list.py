"""The models that clients can ask for, from all upstreams, in OpenAI's form; `GET /readyz`: whether these answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from starlette.types import Scope, Send

from ...lru_cache import LRUCache
from ...wire.openai import read_value
from ..http.errors import send_json
from ..http.head import KEYS, without_keys
from ..http.request_record import RECORD, Record
from ..middleware.backend_questions import ask
from ..middleware.tenants import TENANT_KEY
from .upstream.model_names import Rename
from .upstream.upstream import Upstream

# Seconds: how long to wait for an upstream's own list, how long it holds, and how long a failure does.
_PATIENCE = 5.0
_FRESH = 15.0
_FAILED = 5.0
# Lists by the client's headers that the upstream got.
_MOST_KEPT = 64
# Of the body and the connection, and what differs from request to request and says nothing of who asks.
_NOT_ASKED = frozenset(
    b"content-length content-type content-encoding transfer-encoding connection keep-alive te upgrade expect range "
    b"accept-encoding anthropic-version cache-control pragma date priority referer origin idempotency-key "
    b"x-request-id x-client-request-id x-correlation-id request-id traceparent tracestate baggage b3 via "
    b"x-forwarded-for x-real-ip forwarded true-client-ip proxy-authorization".split()
)
_NOT_ASKED_PREFIXES = (b"if-", b"sec-", b"x-stainless-", b"x-b3-", b"x-envoy-", b"cf-ray", b"cf-connecting-")


Pair = tuple[bytes, bytes]


class Listing:
    """Lists models; keeps what upstreams answered for some seconds."""

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[int, tuple[Pair, ...]], tuple[list[dict[str, Any]] | None]]
        self.forget()

    def forget(self) -> None:
        """The upstreams have changed."""
        self._kept = LRUCache(max_entries=_MOST_KEPT)

    async def models(self, upstreams: Iterable[Upstream], scope: Scope) -> tuple[list[dict[str, Any]], bool]:
        """(entries, whether every upstream gave its list). One entry for each name; the first upstream's wins."""
        upstreams = list(upstreams)
        if len({upstream.origin for upstream in upstreams}) > 1:
            # A client's key is for one of them, and it is not known for which.
            scope = without_keys(scope)
        lists = await asyncio.gather(*(self._of(upstream, scope) for upstream in upstreams))
        entries: dict[str, dict[str, Any]] = {}
        for upstream, listed in zip(upstreams, lists, strict=True):
            for name, entry in _entries(upstream, listed or []):
                entries.setdefault(name, entry)
        return list(entries.values()), None not in lists

    async def _of(self, upstream: Upstream, scope: Scope) -> list[dict[str, Any]] | None:
        """An upstream's own list; empty where its names are known without, None where it cannot be had."""
        if not upstream.config.has_globs:
            return []
        # Lists are kept by the headers that are sent: whatever decides an upstream's answer is among them.
        sent = tuple(_sent_headers(scope["headers"], keyed=upstream.config.settings.upstream_key is not None))
        key = (id(upstream), sent)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[0]
        listed = _listed(*await ask_for_models(upstream, {**scope, "client": None}, sent))
        self._kept.put(key, (listed,), seconds=_FAILED if listed is None else _FRESH)
        return listed


def _sent_headers(headers: Iterable[Pair], *, keyed: bool) -> Iterator[Pair]:
    """The headers that an upstream is asked with. keyed: by the operator's key, with none of the client's."""
    for given, value in headers:
        name = given.lower()
        if name not in _NOT_ASKED and not name.startswith(_NOT_ASKED_PREFIXES) and not (keyed and name in KEYS):
            yield name, value


def _listed(status: int, body: bytes | None) -> list[dict[str, Any]] | None:
    """The entries of an upstream's list; None if its answer is not a list."""
    value = read_value(body or b"")
    listed = value.get("data") if isinstance(value, dict) else None
    if status != 200 or not isinstance(listed, list):
        return None
    return [entry for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _entries(upstream: Upstream, listed: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    config = upstream.config
    own = {entry["id"]: entry for entry in listed}
    for name in config.literal_models:
        known = own.get(config.model_for(name), {})
        yield name, _entry(name, config.name, known)
    for entry in listed:
        for name in config.client_names(entry["id"]):
            yield name, _entry(name, config.name, entry)


def with_aliases(entries: list[dict[str, Any]], aliases: Sequence[Rename]) -> list[dict[str, Any]]:
    """The entries, and one for each alias that is a whole name: Claude Code offers the names that it finds here."""
    known = {entry["id"]: entry for entry in entries}
    for rule in aliases:
        if "*" not in rule.pattern and rule.target in known:
            known.setdefault(rule.pattern, {**known[rule.target], "id": rule.pattern})
    return list(known.values())


def _entry(name: str, owner: str, known: dict[str, Any]) -> dict[str, Any]:
    return {"object": "model", "created": 0, "owned_by": owner, **known} | {"id": name}


async def ask_for_models(upstream: Upstream, scope: Scope, headers: Iterable[Pair]) -> tuple[int, bytes | None]:
    """(status, body) of the upstream's answer to `GET /v1/models`. See `ask`.

    scope: of the client's request. headers: sent in place of its own, beside its `Via`.
    """
    hops = [pair for pair in scope["headers"] if pair[0].lower() == b"via"]
    own: Scope = {
        **scope,
        "method": "GET",
        "path": "/v1/models",
        "raw_path": b"/v1/models",
        "root_path": "",
        "query_string": b"",
        "headers": [*headers, *hops, (b"accept-encoding", b"identity")],
        RECORD: Record(others=True),
        TENANT_KEY: None,
    }
    return await ask(upstream, own, b"", _PATIENCE)


_READY_FRESH = 5.0  # seconds for which the answer to `/readyz` holds


class Readiness:
    """Answers 200 where an upstream answers, else 503: `{"status": ..., "upstreams": {name: whether it answers}}`.

    Any upstream answer below 500 counts, also a refusal of the key: a client's own key may be right. An answer holds
    for some seconds. tell: called with each upstream's name and whether it answered.
    """

    def __init__(
        self, upstreams: Callable[[], Sequence[Upstream]], tell: Callable[[str, bool], None] | None = None
    ) -> None:
        self._upstreams = upstreams
        self._tell = tell
        self._until = 0.0
        self._known: dict[str, bool] = {}
        self._asking = asyncio.Lock()

    async def answer(self, scope: Scope, send: Send) -> None:
        """Answer a request for `/readyz`."""
        known = await self._look(scope)
        ready = any(known.values())
        body = msgspec.json.encode({"status": "ready" if ready else "unready", "upstreams": known})
        await send_json(send, 200 if ready else 503, body, {"cache-control": "no-store"})

    async def _look(self, scope: Scope) -> dict[str, bool]:
        async with self._asking:
            if time.monotonic() >= self._until:
                upstreams = self._upstreams()
                answers = await asyncio.gather(*(_answers(upstream, scope) for upstream in upstreams))
                names = [upstream.config.name for upstream in upstreams]
                self._known = dict(zip(names, answers, strict=True))
                self._until = time.monotonic() + _READY_FRESH
                if self._tell is not None:
                    for name, answered in self._known.items():
                        self._tell(name, answered)
            return self._known


async def _answers(upstream: Upstream, scope: Scope) -> bool:
    # None of the client's headers are sent: a client without a key may ask this.
    status, _ = await ask_for_models(upstream, scope, [(b"host", b"localhost")])
    return 0 < status < 500
