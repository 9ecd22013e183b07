"""What a path means, however it is spelled, and where it is at an upstream.

A guard decides on the meaning, because servers resolve paths in their own ways: nginx merges slashes and resolves dot
segments, servlet containers cut `;params`, some routers ignore case and a slash at the end, and a proxy in between may
unescape once more. `normal_path` does all that any of them would do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit, urlunsplit

from starlette.types import Scope

from .headers import raw_path

# Escapes within escapes: each round is one more server that unescapes.
_ROUNDS = 8
# Of what is remembered: clients send what they like.
_SHORT = 200
# OpenAI's API. Clients whose base address lacks /v1 ask for these; /health or /tokenize are the server's own.
_API = re.compile(
    rb"/(?:chat/completions|completions|embeddings|models|messages|responses|moderations|audio|images)(?:/|$)"
)
_VERSION = b"/v1"
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
    if path == _VERSION or path.startswith(_VERSION + b"/"):
        return base + path.removeprefix(_VERSION)
    return (base if _API.match(path) else base.removesuffix(_VERSION)) + path


def upstream_address(url: str, path: str) -> str:
    """The whole address of a client's `path` at the upstream with the base address `url`."""
    parts = urlsplit(url)
    target = upstream_path(parts.path.rstrip("/").encode(), path.encode()).decode()
    return urlunsplit((parts.scheme, parts.netloc, target, "", ""))
