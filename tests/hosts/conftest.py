"""The fault tests of the proxy run over both of its HTTP clients."""

from __future__ import annotations

import pytest

from toolcall_middleware.hosts.proxy.upstream import client

# What is said to an upstream, and what it says, over sockets.
_OVER_BOTH = frozenset(
    {
        "test_any_byte", "test_chain", "test_limits", "test_request", "test_response", "test_silence",
        "test_slow_uploads", "test_smuggling", "test_upstream_faults",
    }
)  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in _OVER_BOTH and "http_client" in metafunc.fixturenames:
        metafunc.parametrize("http_client", ["own", "httpx"], indirect=True)


@pytest.fixture(autouse=True)
def http_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which client asks upstreams: our own where nothing else is said."""
    name: str = getattr(request, "param", "own")
    if name == "httpx":
        monkeypatch.setattr(client, "HAS_PARSER", False)
    return name
