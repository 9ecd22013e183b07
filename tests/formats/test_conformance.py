"""Every registered format reads its golden cases the same way however the text is cut; so does `auto`."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.helpers.thorough import THOROUGH
from toolcall_middleware.formats import registry
from toolcall_middleware.parsing.events import Event

from ..parsing.streams import one_cut, random_cuts, read, two_cuts
from . import goldens
from .goldens import Case

# Each case is read whole, character by character, and cut at so many places of its text, evenly spread. TEST_THOROUGH=1
# cuts at every place, and twice in every way where there are no more than TWO_CUTS: that takes half an hour, and the
# fuzzer cuts more texts. `auto` reads with the same readers behind one more decision, so it is cut less often.
ONE_CUT, ONE_CUT_AUTO = (10**9, 10**9) if THOROUGH else (16, 6)
TWO_CUTS, TWO_CUTS_AUTO = (1000, 100) if THOROUGH else (5, 2)
RANDOM_CUTS = 2
AT_LEAST = 15  # cases a format


@pytest.mark.parametrize("name", goldens.formats())
def test_every_format_has_goldens(name: str) -> None:
    cases = goldens.load(name)
    assert len(cases) >= AT_LEAST, f"{name} needs {AT_LEAST} golden cases"
    assert len({case.id for case in cases}) == len(cases), "ids are unique"


def test_every_golden_file_is_of_a_format() -> None:
    assert {path.stem for path in goldens.FOLDER.glob("*.jsonl")} <= set(registry.names())


@pytest.mark.slow
@pytest.mark.parametrize("name", goldens.formats())
def test_every_format_reads_its_cases(name: str) -> None:
    _read_all(name, lambda case: case.check(_split_invariant(name, case, ONE_CUT, TWO_CUTS)))


@pytest.mark.slow
@pytest.mark.parametrize("name", goldens.formats())
def test_auto_reads_every_formats_cases(name: str) -> None:
    def check(case: Case) -> None:
        whole = _split_invariant("auto", case, ONE_CUT_AUTO, TWO_CUTS_AUTO)
        if not case.auto:
            case.check(whole)

    _read_all(name, check)


def _read_all(name: str, check: Callable[[Case], None]) -> None:
    """One test for all cases of a format: four thousand would cost more than what they run. All failures are shown."""
    failed: list[str] = []
    for case in goldens.load(name):
        try:
            check(case)
        except AssertionError as error:
            failed.append(f"{case.id}: {case.text!r}\n{error}")
    assert not failed, "\n\n".join([f"{len(failed)} cases of {name}", *failed])


def _split_invariant(name: str, case: Case, once: int, twice: int) -> list[Event]:
    """The merged events of the whole text; asserts that they are the same however it is cut.

    once, twice: the most ways with one cut and with two.
    """
    fmt, cut, text = registry.get(name), case.ends_cut, case.text
    whole = read(case.reader(fmt), [text], cut=cut)

    def same(pieces: list[str]) -> None:
        events = read(case.reader(fmt), pieces, cut=cut)
        assert events == whole, f"in the pieces {pieces}"

    same(list(text))
    step = 1 + len(text) // once
    for pieces in itertools.islice(one_cut(text), len(case.id) % step, None, step):
        same(pieces)
    for pieces in two_cuts(text, twice):
        same(pieces)
    for pieces in random_cuts(text, RANDOM_CUTS):
        same(pieces)
    return whole
