"""The inspector's server: a page, its files, the exchanges as JSON, and a stream of events for what is new. Also one
exchange as one HTML file for a bug report, which has no script and refers to no other file.

All of it needs a token in the address, is given to this machine alone by default, and asks nothing of any other server:
the page's own policy forbids it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ....errors import FormatError, ToolCallError
from ....explain import answer_of, case_of, explain, offered_in
from ....formats import registry
from ....library import read_calls
from ....response.choice import CUT
from ....response.outcome import CURES
from ....wire.openai import encode
from ...http.cors import admits_host, is_loopback
from ...http.head import header_of, raw_path
from .store import Entry, Store

PREFIX = "/inspect/"
_CURES = {reason.value: cure for reason, cure in CURES.items()}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # the address holds the token
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_MOST_WORDS = 16  # of a search
_HEARTBEAT = 10.0
_PAUSE = 0.2  # seconds between two events at least: a browser cannot show more


def _no_template(_upstream: str | None) -> None:
    """Calls are read as the formats' own."""


class Inspector:
    """An app before `app`: `/inspect/TOKEN/` is the page; without the token there is nothing, and it goes on to `app`.

    local_only: who is not on this machine gets what there is without the token. template_of: by an exchange's upstream
    (None: it has no name), whose chat template calls are read by. sends: `app` is a proxy, to which the page may send a
    request again.
    """

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        token: str,
        *,
        local_only: bool = True,
        template_of: Callable[[str | None], str | None] = _no_template,
        sends: bool = False,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._local_only = local_only
        self._pages = pages(store, template_of, sends=sends)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and raw_path(scope) == PREFIX[:-1].encode() and self._is_local(scope):
            # A stable address. No page of another site can read where it leads.
            page = f"{PREFIX}{self._token.decode()}/"
            await RedirectResponse(page, headers=_HEADERS)(scope, receive, send)
            return
        if scope["type"] != "http" or not self._is_mine(scope):
            await self._app(self._without_token(scope), receive, send)
            return
        path = raw_path(scope).decode("latin-1")
        inner = path[len(PREFIX) + len(self._token) :]
        if not inner:  # the page's own addresses are relative
            await RedirectResponse(f"{path}/", headers=_HEADERS)(scope, receive, send)
            return
        await self._pages({**scope, "path": inner, "raw_path": inner.encode(), "root_path": ""}, receive, send)

    def _without_token(self, scope: Scope) -> Scope:
        """`scope` without the token in its path, which `app` writes into its log."""
        if scope["type"] == "lifespan" or self._token.decode() not in scope["path"]:
            return scope
        hidden = scope["path"].replace(self._token.decode(), "TOKEN")
        return {**scope, "path": hidden, "raw_path": quote(hidden).encode(), "query_string": b""}

    def _is_mine(self, scope: Scope) -> bool:
        path = raw_path(scope)
        if not path.startswith(PREFIX.encode()):
            return False
        token = path[len(PREFIX) :].partition(b"/")[0]
        return hmac.compare_digest(token, self._token) and (not self._local_only or self._is_local(scope))

    @staticmethod
    def _is_local(scope: Scope) -> bool:
        """Whether this machine asks, by a name of its own."""
        client = scope.get("client")
        if client is None or not is_loopback(client[0]):
            return False
        # A name that was made to lead here (DNS rebinding) would give another site's scripts our origin.
        return admits_host(header_of(scope, b"host"), ())


def pages(
    store: Store, template_of: Callable[[str | None], str | None] = _no_template, *, sends: bool = False
) -> Starlette:
    """The page and its data, without any guard before them. template_of, sends: see Inspector."""

    async def page(request: Request) -> Response:
        return _file(request.path_params.get("name") or "index.html")

    async def listed(_request: Request) -> Response:
        return _json(await run_in_threadpool(_summaries, list(store.entries.values())))

    async def search(request: Request) -> Response:
        words = request.query_params.get("text", "").lower().split()[:_MOST_WORDS]
        entries = list(store.entries.values())
        return _json(await run_in_threadpool(lambda: [entry.number for entry in entries if entry.holds(words)]))

    def of_entry(answer: Callable[[Entry, str | None, Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Answers about one exchange, in a thread; 404 where it is gone."""

        async def endpoint(request: Request) -> Response:
            entry = store.entries.get(request.path_params["number"])
            if entry is None:
                return PlainTextResponse("There is no such exchange any more.", 404, _HEADERS)
            return await run_in_threadpool(answer, entry, template_of(entry.summary.get("upstream")), request)

        return endpoint

    async def about(_request: Request) -> Response:
        return _json({"formats": registry.names(), "sends": sends})

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(store, request), 200, _HEADERS, "text/event-stream")

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/api/exchanges", listed),
            Route("/api/exchanges/{number:int}", of_entry(_shown)),
            Route("/api/exchanges/{number:int}/case", of_entry(_case)),
            Route("/api/exchanges/{number:int}/trace", of_entry(_trace)),
            Route("/api/exchanges/{number:int}/report", of_entry(_report)),
            Route("/api/exchanges/{number:int}/read", of_entry(_read_as)),
            Route("/api/about", about),
            Route("/api/events", events),
            Route("/api/search", search),
            Route("/{name:str}", page),
        ]
    )
    app.router.redirect_slashes = False  # it would lead out of the token's folder
    return app


def _summaries(entries: list[Entry]) -> list[dict[str, Any]]:
    return [{**entry.summary, "version": entry.version} for entry in entries]


def _shown(entry: Entry, template: str | None, _request: Request) -> Response:
    rows = list(entry.rows)
    shown = {"summary": entry.summary, "version": entry.version, "rows": rows}
    cure = _CURES.get(str(entry.summary.get("no_call")))
    return _json({**shown, "explained": explain(rows, entry.summary, template), "cure": cure})


def _case(entry: Entry, template: str | None, _request: Request) -> Response:
    found = case_of(list(entry.rows), entry.summary, template)
    return _json(found, {"content-disposition": f'attachment; filename="case-{entry.number}.json"'})


def _trace(entry: Entry, _template: str | None, _request: Request) -> Response:
    if entry.trace is None:
        return PlainTextResponse("The exchange runs; its trace is there once it is over.", 404, _HEADERS)
    headers = {**_HEADERS, "content-disposition": f'attachment; filename="trace-{entry.number}.jsonl"'}
    return Response(entry.trace.encode(), 200, headers, "application/x-ndjson")


def _report(entry: Entry, template: str | None, _request: Request) -> Response:
    rows = list(entry.rows)
    made = report_page(entry.summary, explain(rows, entry.summary, template), rows)
    headers = {**_HEADERS, "content-disposition": f'attachment; filename="exchange-{entry.number}.html"'}
    return Response(made, 200, headers, "text/html")


def _read_as(entry: Entry, _template: str | None, request: Request) -> Response:
    """The model's text as another format reads it: the calls, the text beside them and the reasoning."""
    rows = list(entry.rows)
    answer = answer_of(rows).choices[0]
    name, model = request.query_params.get("format", "auto"), str(entry.summary.get("model") or "")
    try:
        read = read_calls(answer.text, offered_in(rows), format=name, model=model, cut=answer.finish_reason in CUT)
    except (FormatError, ToolCallError) as error:
        return PlainTextResponse(str(error), 400, _HEADERS)
    return _json(read)


def _file(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    found = resources.files(__package__).joinpath("page", name)
    if kind is None or name != found.name or not found.is_file():
        return PlainTextResponse("Not found.", 404, _HEADERS)
    return Response(found.read_bytes(), 200, _HEADERS, kind)


def _json(value: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(encode(value), 200, {**_HEADERS, **(headers or {})}, "application/json")


async def _events(store: Store, request: Request) -> AsyncIterator[bytes]:
    """A snapshot of what has changed, at most some times a second: `data: {"changed": [summaries], "gone": below}`."""
    shown: dict[int, str] = {}
    version = -1
    while not store.closed and not await request.is_disconnected():
        before, version = version, await store.wait(version, _HEARTBEAT)
        changed = [entry for entry in store.entries.values() if shown.get(entry.number) != entry.version]
        # Rows of a running exchange make no version of the store.
        running = [entry for entry in store.entries.values() if entry.report is not None]
        if before == version and not changed:
            yield b": still here\n\n"
        else:
            first = next(iter(store.entries), 0)
            shown = {number: known for number, known in shown.items() if number >= first}
            shown |= {entry.number: entry.version for entry in changed}
            summaries = await run_in_threadpool(_summaries, changed)
            yield b"data: " + encode({"changed": summaries, "first": first}) + b"\n\n"
        await asyncio.sleep(_PAUSE)
        if running:
            version = -1 if version == store.version else version


_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_FACTS = (
    "id",
    "time",
    "api",
    "model",
    "mode",
    "format",
    "status",
    "error",
    "end",
    "stream",
    "outcomes",
    "finish_reasons",
)
_STYLE = """:root { color-scheme: light dark }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 980px; margin: 24px auto; padding: 0 16px }
h1 { font-size: 19px } h2 { font-size: 15px; margin: 26px 0 6px }
pre { font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0 10px;
  padding: 8px 10px; border: 1px solid light-dark(#dfe0e6, #2d313b); border-radius: 6px; unicode-bidi: isolate }
table { border-collapse: collapse } td { padding: 1px 14px 1px 0; vertical-align: top }
.call { color: light-dark(#0b6b3a, #7fd89f) } .reasoning, .markup { color: light-dark(#8a5a00, #d8a657) }
.dropped { text-decoration: line-through } .injected { color: light-dark(#5b48c2, #b9adff) }
.dim { color: light-dark(#666c78, #8c93a3) }"""


def report_page(summary: Mapping[str, Any], explained: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """The page. summary, explained and rows: as the inspector's own page gets them (`explain`)."""
    request = next((row["data"] for row in rows if row["kind"] in {"face_request", "request"}), "")
    title = escape(f"Exchange {summary.get('id') or ''}")
    facts = ((name, _fact(name, summary[name])) for name in _FACTS if summary.get(name) not in (None, "", []))
    decisions = ((row["what"], f"{row['value']} {row.get('why') or ''}") for row in rows if row["kind"] == "decision")
    notes = [one["why"] for one in (*explained["faults"], *explained["near_misses"])]
    calls = [f"{call['name']} {call['arguments']}  ({call.get('outcome') or 'read'})" for call in explained["calls"]]
    prompt = (_message(message) for message in explained["prompt"])
    sections = [
        ("Facts", _table(facts)),
        ("Decisions", _table(decisions)),
        ("What was noted", "".join(f"<pre>{_text(note)}</pre>" for note in notes)),
        ("Client asked", f"<pre>{_text(_pretty(str(request)))}</pre>" if request else ""),
        ("Prompt", "".join(prompt)),
        ("The backend's reasoning field", _pre(explained["reasoning"])),
        ("The backend's own calls", _pre(json.dumps(explained["native"], indent=2) if explained["native"] else "")),
        ("Model wrote", f"<pre>{_spans(explained)}</pre>" if explained["text"] else ""),
        ("Client's calls", "".join(_pre(call) for call in calls)),
        ("Error", _pre(explained["refused"] or explained["error"] or "")),
    ]
    body = "".join(f"<section><h2>{escape(name)}</h2>{inner}</section>\n" for name, inner in sections if inner)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{_STYLE}</style></head>
<body><h1>{title}</h1>
<p class="dim">It holds the whole conversation. Remove what is not for others.</p>
{body}</body></html>
"""


def _fact(name: str, value: Any) -> Any:
    if name == "time":
        return dt.datetime.fromtimestamp(value, dt.UTC).isoformat(timespec="seconds")
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _text(value: object) -> str:
    """Text for the page. Characters that hide or turn text round are shown as their code points."""
    shown = _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", str(value))
    return escape(shown.encode("utf-8", "backslashreplace").decode())


def _pre(value: object) -> str:
    return f"<pre>{_text(value)}</pre>" if value else ""


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _table(pairs: Iterable[tuple[str, Any]]) -> str:
    lines = "".join(f'<tr><td class="dim">{_text(name)}</td><td>{_text(value)}</td></tr>' for name, value in pairs)
    return f"<table>{lines}</table>" if lines else ""


def _message(message: Mapping[str, Any]) -> str:
    parts = (
        f'<span class="{"injected" if part["injected"] else "own"}">{_text(part["text"])}</span>'
        for part in message["parts"]
    )
    return f'<div class="dim">{_text(message["role"])}</div><pre>{"".join(parts)}</pre>'


def _spans(explained: Mapping[str, Any]) -> str:
    text = explained["text"]
    return "".join(
        f'<span class="{escape(span["kind"])}">{_text(text[span["start"] : span["end"]])}</span>'
        for span in explained["spans"]
    )
