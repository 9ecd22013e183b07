"""A path is decided on by what it means, however it is spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.hosts.http.head import matches, normal_path, without_keys

CHAT = "/v1/chat/completions"

SPELLINGS = [
    "/v1/chat/completions", "/v1/chat//completions", "/v1/chat/./completions", "/v1/chat/x/../completions",
    "/v1/chat/completions/", "/v1/chat/completions//", "/v1/chat/completions;a=b", "/v1;x/chat;y=1/completions",
    "/V1/Chat/COMPLETIONS", "/v1/chat/%63ompletions", "/v1/chat/%2563ompletions", "/v1/chat%2fcompletions",
    "/v1/chat/%2e/completions", "/v1/chat/x/%2E%2e/completions", "/v1\\chat\\completions", "//v1/chat/completions",
    "/../v1/chat/completions", "/v1/chat/completions%20", "/v1/chat/completions%00", "/v1/chat/completions%3Fa=b",
    "/v1/chat/%25252525252563ompletions",
    "/v1/chat/completions%23", "/v1/chat/completions/.", "/v1/chat/..;/chat/completions",
]  # fmt: skip


@pytest.mark.parametrize("path", SPELLINGS)
def test_spellings_of_a_path_are_one(path: str) -> None:
    assert normal_path(path) == CHAT


@given(st.text("/.%2eEfF5cC;\\aA?# \0", max_size=40))
def test_a_normal_path_is_normal_and_has_no_dots(text: str) -> None:
    path = normal_path("/" + text)
    assert path.startswith("/")
    assert path == "/" or not path.endswith("/")
    assert not {"..", ".", ""} & set(path[1:].split("/") if path != "/" else [])


def test_patterns_of_paths_hold_with_and_without_v1() -> None:
    patterns = ("/embeddings", "/audio/*", "/v2/rerank")
    assert all(matches(path, patterns) for path in ("/v1/embeddings", "/embeddings", "/v1/audio/speech", "/v2/rerank"))
    assert not any(matches(path, patterns) for path in ("/v2/embeddings", "/audio", "/v1/organization", "/rerank"))
    assert matches("/anything", ("*",))


@pytest.mark.parametrize(
    ("query", "left"),
    [
        (b"api-version=1&api_key=sk&b=key", b"api-version=1&b=key"),
        (b"api%5F%6Bey=sk;a=1", b"a=1"),
        (b"a=1&access-%74oken=sk", b"a=1"),
        (b"a=%61&&b", b"a=%61&&b"),
    ],
)
def test_a_query_goes_on_without_keys_of_any_spelling(query: bytes, left: bytes) -> None:
    scope = {"type": "http", "headers": [], "query_string": query}
    assert without_keys(scope)["query_string"] == left
