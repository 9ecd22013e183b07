"""Proxies over a file of upstreams. The fault tests of the proxy run over both of its HTTP clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcall_middleware.hosts.proxy.upstream import client

from .proxy.routing import Proxies

# By these a test has an upstream on a socket, to which a client of the proxy's speaks.
_ON_SOCKETS = frozenset({"between", "proxy", "proxying", "raw_upstream", "refusing_port"})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not metafunc.module.__name__.endswith("test_own_client") and _ON_SOCKETS & {
        *metafunc.function.__code__.co_names
    }:
        metafunc.parametrize("http_client", ["own", "httpx"], indirect=True)


@pytest.fixture
def proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proxies:
    return Proxies(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def http_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which client asks upstreams: our own where nothing else is said."""
    name: str = getattr(request, "param", "own")
    if name == "httpx":
        monkeypatch.setattr(client, "HAS_PARSER", False)
    return name
