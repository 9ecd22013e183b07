"""The heads of requests and answers: which headers go through a proxy, how the length of a body is stated, what a path
means, however it is spelled, and where it is at an upstream. Names of headers are sent in lower case.

A guard decides on a path's meaning, because servers resolve paths in their own ways: nginx merges slashes and resolves
dot segments, servlet containers cut `;params`, some routers ignore case and a slash at the end, and a proxy in between
may unescape once more. `normal_path` does all that any of them would do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit, urlunsplit

from starlette.types import Message, Scope

Headers = list[tuple[bytes, bytes]]

# RFC 9110, 7.6.1, and what was one connection's business before it.
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# `expect` was met when the body was read; the others are written anew.
_NOT_SENT_ON = _HOP_BY_HOP | {b"host", b"content-length", b"expect", b"authorization", b"x-forwarded-for"}
# Where clients show keys. They are not sent to an upstream that gets one of ours.
_KEYS = frozenset({b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie"})
KEYS = _KEYS | {b"authorization"}
"""Where clients show who they are."""
SECRET_NAME = re.compile(rb"auth|key|token|secret|cookie|pass|credential|sig", re.IGNORECASE)
"""In the name of a header or of a parameter: its value may be a secret."""
SHORTEST_SECRET = 8
"""Characters: what is shorter is no key, and its letters occur anywhere."""
_WHO_ASKED = frozenset({b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded", b"x-real-ip"})
# `date` is written by every ASGI server.
_NOT_SENT_BACK = _HOP_BY_HOP | {b"content-length", b"date"}

OF_ITS_BYTES = frozenset({b"content-length", b"etag", b"content-md5", b"digest", b"content-digest"})
"""What headers say of the very bytes of a body, which is wrong of any other body."""
ENTITY_HEADERS = OF_ITS_BYTES | {b"content-encoding", b"transfer-encoding"}
"""What headers say of a body's bytes, and of how these are sent."""
RETRY_HEADERS = frozenset({b"retry-after", b"retry-after-ms", b"x-should-retry"})
"""What headers of an error say of asking again."""

_ERROR = 400  # the least status of one
_LINE_END = re.compile(rb"[\r\n\0]")
_LENGTH_HEADERS = frozenset({b"content-length", b"transfer-encoding"})


def request_headers(
    scope: Scope,
    *,
    host: bytes,
    own: Iterable[tuple[bytes, bytes]],
    key_header: bytes,
    keep_key: bool,
    length: int,
    tell_client: bool = True,
) -> Headers:
    """The headers for the upstream `host` of the request in `scope`.

    `own` replace the client's of the same name. `key_header` is where the upstream reads its key: the client's goes on
    only with `keep_key`, there too where it came as `Authorization: Bearer`; without it none of its keys and cookies
    does. `length` is that of the body. With `tell_client` the upstream gets the client's address.
    Raises ValueError for a request that could be read in two ways (RFC 9112, 11.2).
    """
    given = _lower(scope["headers"])
    own = list(own)
    dropped = _NOT_SENT_ON | {name for name, _ in own} | {key_header}
    if not keep_key:
        dropped |= _KEYS
    if not tell_client:
        dropped |= _WHO_ASKED
    headers: Headers = [(b"host", host), *_end_to_end(given, dropped), *own]
    if keep_key and not any(name == key_header for name, _ in own):
        headers += _shown_key(given, key_header)
    if tell_client:
        headers += _forwarded(scope, given)
    headers += _framing(given, length)
    return headers


def response_headers(received: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers for the client. Raises ValueError for what would become a second header."""
    given = _lower(received)
    headers = _end_to_end(given, _NOT_SENT_BACK)
    if not any(name == b"transfer-encoding" for name, _ in given):
        # One at most, because the server frames the answer by it; differing ones have failed in the HTTP parser.
        headers += [pair for pair in given if pair[0] == b"content-length"][:1]
    return headers


def values_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """The header's values, in order, without white space around them. name: in lower case."""
    return [value.strip() for given, value in headers if given.lower() == name]


def header_of(scope: Scope, name: bytes) -> str | None:
    """The header's value, or None. Two values are joined to one that no list holds."""
    values = values_of(scope.get("headers", ()), name)
    return b", ".join(values).decode("latin-1") if values else None


def logins(headers: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """How a client shows who it is: the values of `authorization`, or else `Bearer KEY` for each `x-api-key`."""
    headers = list(headers)
    return values_of(headers, b"authorization") or [b"Bearer " + key for key in values_of(headers, b"x-api-key")]


def wants_websocket(scope: Scope) -> bool:
    """Whether the request asks for a WebSocket. A server without that protocol hands on the upgrade as a GET."""
    if scope["type"] == "websocket":
        return True
    upgrades = values_of(scope["headers"], b"upgrade")
    return scope["type"] == "http" and any(value.lower() == b"websocket" for value in upgrades)


def without(headers: Iterable[tuple[bytes, bytes]], dropped: Container[bytes]) -> Headers:
    """The headers but for those whose name, in lower case, is `dropped`."""
    return [pair for pair in headers if pair[0].lower() not in dropped]


def without_keys(scope: Scope) -> Scope:
    """The request in `scope` without what its client may have shown to be let in, in headers or in the query.

    By its name: gateways have headers of their own for it (`x-litellm-api-key`, `ocp-apim-subscription-key`).
    """
    headers = [pair for pair in scope["headers"] if not SECRET_NAME.search(pair[0])]
    query: bytes = scope.get("query_string", b"")
    if SECRET_NAME.search(unquote_to_bytes(query)):
        pairs = [pair for pair in re.split(rb"[&;]", query) if not SECRET_NAME.search(_name(pair))]
        query = b"&".join(pairs)
    return {**scope, "headers": headers, "query_string": query}


def secret_values(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """What headers hold that say by their name that it is a secret, with its scheme (`Bearer`) and without."""
    texts = [value.decode("latin-1") for name, value in headers if SECRET_NAME.search(name)]
    return [secret for text in texts for secret in (text, text.partition(" ")[2]) if len(secret) >= SHORTEST_SECRET]


def _name(pair: bytes) -> bytes:
    return unquote_to_bytes(pair.partition(b"=")[0])


MEASURED = "toolcall.measured"
"""A key of the scope: the client's body was within its limit before it was written anew."""


def scope_for_body(scope: Scope, length: int, *, identity: bool = False) -> Scope:
    """`scope` for a body of `length` bytes that is at hand; `identity`: the answer has to be read."""
    dropped = _LENGTH_HEADERS | ({b"expect", b"accept-encoding"} if identity else {b"expect"})
    headers = [*without(scope.get("headers", ()), dropped), (b"content-length", b"%d" % length)]
    if identity:
        headers.append((b"accept-encoding", b"identity"))
    return {**scope, "headers": headers, MEASURED: True}


def request_scope(scope: Scope, length: int) -> Scope:
    """The app's scope: the new length, and an answer that can be read: no codings, no files, no trailers."""
    scope = scope_for_body(scope, length, identity=True)
    extensions = scope.get("extensions") or {}
    scope["extensions"] = {name: value for name, value in extensions.items() if not name.startswith("http.response.")}
    return scope


def response_head(start: Message, headers: dict[str, str], *, status: int | None) -> Message:
    """The app's response start with other headers, and without those about its own body.

    status: another one; where that is no error, the headers about the app's error go, too.
    """
    replaced = {name.encode("latin-1") for name in headers}
    status = start["status"] if status is None else status
    dropped = ENTITY_HEADERS | RETRY_HEADERS if status < _ERROR <= start["status"] else ENTITY_HEADERS
    kept: Headers = without(start.get("headers", ()), dropped | replaced)
    kept += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {**start, "status": status, "headers": kept}


def raw_path(scope: Scope) -> bytes:
    """The path's own bytes, without the prefix under which the app is mounted."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    root = quote(scope.get("root_path", "")).encode().rstrip(b"/")
    if root and (path == root or path.startswith(root + b"/")):
        path = path[len(root) :]
    return path or b"/"


def _lower(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    pairs = [(name.lower(), value) for name, value in headers]
    if _LINE_END.search(b"".join([part for pair in pairs for part in pair])):
        raise ValueError("a header holds a line end")
    return pairs


def _end_to_end(headers: Headers, dropped: frozenset[bytes]) -> Headers:
    """In order, repeated ones kept, without `dropped` and without those that `connection` names."""
    named = {token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")}
    dropped = dropped | named if named else dropped
    return [pair for pair in headers if pair[0] not in dropped]


def _shown_key(given: Headers, key_header: bytes) -> Headers:
    """The client's own key, in the header that the upstream reads."""
    shown = [pair for pair in given if pair[0] == key_header]
    if shown or key_header == b"authorization":
        return shown
    logins = [value.partition(b" ") for name, value in given if name == b"authorization"]
    return [(key_header, key.strip()) for scheme, _, key in logins if scheme.lower() == b"bearer"][:1]


def _forwarded(scope: Scope, given: Headers) -> Headers:
    """Who asked, added to what proxies before us have said."""
    names = {name for name, _ in given}
    hops = [value for name, value in given if name == b"x-forwarded-for"]
    if scope.get("client"):
        hops.append(str(scope["client"][0]).encode())
    headers: Headers = [(b"x-forwarded-for", b", ".join(hops))] if hops else []
    if b"x-forwarded-proto" not in names:
        headers.append((b"x-forwarded-proto", str(scope.get("scheme", "http")).encode()))
    if b"x-forwarded-host" not in names:
        headers += [(b"x-forwarded-host", value) for name, value in given if name == b"host"][:1]
    return headers


def _framing(given: Headers, length: int) -> Headers:
    """One statement of the body's length, never two (RFC 9112, 6.3). Raises ValueError where the client's differs."""
    chunked = any(name == b"transfer-encoding" for name, _ in given)
    said = {value.strip() for name, value in given if name == b"content-length"}
    actual = b"%d" % length
    if not chunked and said - {actual}:
        raise ValueError("the content-length is not that of the body")
    return [(b"content-length", actual)] if length or said or chunked else []


# Escapes within escapes: each round is one more server that unescapes.
_ROUNDS = 8
# Of what is remembered: clients send what they like.
_SHORT = 200
# OpenAI's API. Clients whose base address lacks /v1 ask for these; /health or /tokenize are the server's own.
_API = re.compile(
    rb"/(?:chat/completions|completions|embeddings|models|messages|responses|moderations|audio|images)(?:/|$)"
)
_V1 = b"/v1"
_IGNORED = re.compile(r"[\x00-\x20\x7f-\xa0\ufeff]+")


def normal_path(path: str) -> str:
    """`path` as the most lenient server reads it: unescaped, in lower case, without `;params`, empty or dot segments.

    Begins with a slash and does not end with one, but for the root. Two paths that some server takes for one have the
    same normal path; the reverse need not hold.
    """
    return _short(path) if len(path) <= _SHORT else _normal(path)


@functools.lru_cache(maxsize=256)
def _short(path: str) -> str:
    """Nearly all requests are for a handful of paths, and each is looked at several times."""
    return _normal(path)


def _normal(path: str) -> str:
    for _ in range(_ROUNDS):
        plain = unquote(path)
        if plain == path:
            break
        path = plain
    segments: list[str] = []
    for segment in re.split(r"[/\\]", path.partition("#")[0].partition("?")[0]):
        name = _IGNORED.sub("", segment.partition(";")[0])
        if name == "..":
            del segments[-1:]
        elif name not in {"", "."}:
            segments.append(name.casefold())
    return "/" + "/".join(segments)


def normal_path_of(scope: Scope) -> str:
    """The normal path of a request, without the prefix under which the app is mounted."""
    return normal_path(raw_path(scope).decode("latin-1"))


def ends_with(path: str, suffixes: Iterable[str]) -> bool:
    """Whether a normal path ends with one of `suffixes`, which are whole segments in any spelling."""
    return any(path.endswith(normal_path(suffix)) for suffix in suffixes)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a normal path is one of `patterns`, with or without `/v1` before it.

    A pattern that ends in `/*` matches everything below it, `*` everything.
    """
    shorter = path.removeprefix("/v1")
    candidates = {path, shorter} if shorter.startswith("/") else {path}
    return any(_matches(candidate, pattern) for pattern in patterns for candidate in candidates)


def _matches(path: str, pattern: str) -> bool:
    if pattern in {"*", "/*"}:
        return True
    if pattern.endswith("/*"):
        return path.startswith(normal_path(pattern[:-2]) + "/")
    return path == normal_path(pattern)


def is_chat(scope: Scope, paths: tuple[str, ...]) -> bool:
    """Whether a request is a POST to one of `paths`, which are suffixes. Another spelling of the path is the same."""
    if scope["method"] != "POST":
        return False
    path: str = scope["path"]
    return path.endswith(paths) or ends_with(normal_path(path), paths)


def upstream_path(base: bytes, path: bytes) -> bytes:
    """Where an upstream has what a client asks for at `path` here. base: the path of the upstream's base address.

    A client's leading `/v1` belongs to the proxy: what follows it is appended to the base, whatever that ends in
    (`/v1`, `/api/paas/v4`, `/v1beta/openai`), and so is a path of the API without `/v1`. Other paths (`/health`) are
    those of the server itself: a base that ends in `/v1` is asked beside it. A base that is empty is the server's
    root: every path stays as it is. All bytes are kept.
    """
    if not base:
        return path
    if path == _V1 or path.startswith(_V1 + b"/"):
        return base + path.removeprefix(_V1)
    return (base if _API.match(path) else base.removesuffix(_V1)) + path


def upstream_address(url: str, path: str) -> str:
    """The whole address of a client's `path` at the upstream with the base address `url`."""
    parts = urlsplit(url)
    target = upstream_path(parts.path.rstrip("/").encode(), path.encode()).decode()
    return urlunsplit((parts.scheme, parts.netloc, target, "", ""))
