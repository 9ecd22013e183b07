"""What holds for all tests: a clean environment, no deadlines, and leaks told where they were made."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.thorough import QUICK, quick_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Helpers whose asserts tell what they compared; before any test imports them.
pytest.register_assert_rewrite("tests.formats.goldens", "tests.helpers.answers", "tests.parsing.streams")

# Time is measured by the tests that are about time; everywhere else a slow machine is no failure.
# CI takes the same examples each time: what it finds can be repeated, and only a change makes it fail.
# It takes half of them, because each run takes the same ones: new ones are found elsewhere.
_CI = bool(os.environ.get("CI"))
_EXAMPLES = 10 if QUICK else 50 if _CI else 100
settings.register_profile(
    "toolcall",
    deadline=None,
    derandomize=_CI,
    max_examples=_EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("toolcall")


TESTS = Path(__file__).parent
# What the tests of a folder need beside this package. The other folders need neither a network nor a client.
TIERS = {"clients": "client", "hosts": "server", "cli": "server", "apis/faces": "server"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test by its folder, so that `-m "not client and not server"` needs neither a network nor a client."""
    for item in items:
        folder = item.path.relative_to(TESTS).parent.as_posix()
        for room, tier in TIERS.items():
            if folder == room or folder.startswith(f"{room}/"):
                item.add_marker(tier)


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_quick_share(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves what the quick loop does not run, once `-k` and `-m` have chosen."""
    if QUICK:
        items[:], left = quick_share(items)
        config.hook.pytest_deselected(items=left)


def pytest_collection_finish() -> None:
    """What was imported and collected lives until the end: a look for garbage takes 0.7 s with it, and none without,
    and `_leaks_are_told_here` looks behind each of some 600 modules.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    """The variables of the machine that runs the tests are not the tests' business."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.upper().startswith("TOOLCALL_")]:
            patch.delenv(name)
        # The tests' servers listen on loopback, which no proxy of the machine can reach.
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost")
        yield


@pytest.fixture(scope="session", autouse=True)
def _authorities_are_read_once() -> Iterator[None]:
    """Each client of httpx reads 140 certificate authorities, 20 ms of CPU, of which none is asked on loopback. There
    are thousands of clients.
    """
    with pytest.MonkeyPatch.context() as patch:
        for library in ("httpx", "httpx2"):
            if importlib.util.find_spec(library) is not None:
                transports = importlib.import_module(f"{library}._transports.default")
                patch.setattr(transports, "create_ssl_context", _once(transports.create_ssl_context))
        yield


def _once(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make`, whose contexts of the same files serve all clients that bring none of their own."""

    @functools.cache
    def made(trust_env: bool, *files: str | None) -> Any:
        return make(trust_env=trust_env)

    def create(*, verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        if verify is not True or cert is not None:
            return make(verify=verify, cert=cert, trust_env=trust_env)
        return made(trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    return create


@pytest.fixture(scope="module", autouse=True)
def _leaks_are_told_here() -> Iterator[None]:
    """A socket or task that a module forgets fails that module, not the one in which it happens to be collected."""
    imported = len(sys.modules)
    yield
    gc.collect()
    if len(sys.modules) > imported:
        gc.freeze()  # what a library made when it was imported lives on, too


@pytest.fixture(scope="module", autouse=True)
def _markup_of_this_module_alone() -> Iterator[None]:
    """The registry of markup belongs to the process: a tag that one test adds is escaped differently in the next."""
    from toolcall_middleware.formats import markup

    before = markup._private
    yield
    if markup._private is not before:
        markup._private = before
        markup.gathered.cache_clear()
        markup.turn_markers.cache_clear()


def pytest_unconfigure() -> None:
    """Let the process end when its last line is printed.

    The interpreter walks through all objects several times before it ends: with the modules of six agent frameworks and
    the items of ten thousand tests that took longer than a minute. What is frozen is not walked through.
    """
    gc.freeze()
