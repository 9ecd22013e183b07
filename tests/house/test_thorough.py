"""The quick loop takes a part of the tests, and what `-k` asks for it takes whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.thorough import quick_share

ROOT = Path(__file__).parents[2]
TESTS = ["tests/formats/test_prose.py", "tests/formats/test_conformance.py"]


class Item:
    """As much of a test as the choice asks for."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid = nodeid
        self._marks = marks

    def get_closest_marker(self, name: str) -> object:
        return name if name in self._marks else None


def test_of_many_parameters_some_are_taken_evenly_and_what_is_slow_is_left() -> None:
    many: list[Any] = [Item(f"a.py::test_many[{at}]") for at in range(120)]
    few: list[Any] = [Item(f"a.py::test_few[{at}]") for at in range(60)]
    left_out: list[Any] = [Item(f"a.py::test_{mark}[1]", mark) for mark in ("slow", "server", "client")]
    taken, left = quick_share([*many, *few, *left_out])
    places = [many.index(item) for item in taken if item in many]
    assert len(places) == 6
    assert {after - before for before, after in pairwise(places)} == {20}
    assert [item for item in taken if item not in many] == few
    assert set(left) == {*many, *left_out} - set(taken)


@pytest.mark.parametrize("chosen", [(), ("-k", "hermes")])
def test_the_environment_asks_for_it(chosen: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {**os.environ, "TEST_QUICK": "1", "TEST_THOROUGH": ""}
    done = subprocess.run(
        [*command, *TESTS, *chosen], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    names = [line for line in done.stdout.splitlines() if "::" in line]
    assert names
    assert max(Counter(name.partition("[")[0] for name in names).values()) <= 60
    if chosen:
        assert any(name.endswith("[hermes]") for name in names)
