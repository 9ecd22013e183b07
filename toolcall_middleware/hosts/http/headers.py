"""Which headers go through a proxy, and how the length of a body is stated. Names are sent in lower case."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from urllib.parse import quote, unquote_to_bytes

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


def _name(pair: bytes) -> bytes:
    return unquote_to_bytes(pair.partition(b"=")[0])


def with_length(scope: Scope, length: int) -> Headers:
    """The request's headers, for a body of this length."""
    return [*without(scope.get("headers", ()), _LENGTH_HEADERS), (b"content-length", b"%d" % length)]


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
    told = ENTITY_HEADERS | RETRY_HEADERS if status < _ERROR <= start["status"] else ENTITY_HEADERS
    kept: Headers = without(start.get("headers", ()), told | replaced)
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
    told = b"%d" % length
    if not chunked and said - {told}:
        raise ValueError("the content-length is not that of the body")
    return [(b"content-length", told)] if length or said or chunked else []
