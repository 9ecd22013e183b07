"""Random exchanges: `python -m tests.bench.fuzz [--kind KIND] [--count 1000000] [--seed 1]`.

Each exchange is made up by dice: what the client asks, what the model writes, how the backend sends it. It is driven
streamed and whole; both answers must keep the rules of the wire and say the same, and nothing may raise but a
ToolCallError. The kinds are in tests/bench/fuzzed. A failure is told with the number that throws the same dice again:
`--only NUMBER`.

`--atheris SECONDS` has the dice thrown by a coverage-guided fuzzer (`pip install atheris`), which looks for texts that
reach lines of the package that no other has reached. Its failures are told as `--bytes HEX`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable

from . import report
from .fuzzed import asked, broken, conserved, cut, faces, guarded, inner, mutated, native, translated
from .fuzzed.dice import Dice, FromBytes, Seeded
from .fuzzed.told import describe
from .guided import guided

KINDS: dict[str, Callable[[Dice], str]] = {
    "conserved": conserved.one,
    "mutated": mutated.one,
    "goldens": mutated.goldens,
    "cut": cut.one,
    "asked": asked.one,
    "broken": broken.one,
    "native": native.one,
    "anthropic": translated.anthropic,
    "google": translated.google,
    "faces": faces.one,
    "guarded": guarded.one,
    "inner": inner.one,
}


def mixed(dice: Dice) -> str:
    """An exchange of any kind."""
    kinds = list(KINDS.values())
    return kinds[dice.below(len(kinds))](dice)


def run(one: Callable[[Dice], str], numbers: range, tell: Callable[[str], object] = print) -> int:
    """An exchange for each number; gives how many failed."""
    seen: Counter[str] = Counter()
    failures = 0
    start = time.monotonic()
    for done, number in enumerate(numbers, 1):
        try:
            seen[one(Seeded(number))] += 1
        except Exception as error:  # noqa: BLE001 - whatever is raised is a finding
            failures += 1
            if failures <= 20:
                tell(f"--only {number}: {describe(error)}")
        if done % 50_000 == 0:
            tell(f"{done} exchanges, {failures} failures, {time.monotonic() - start:.0f} s")
    tell(f"{len(numbers)} exchanges from {numbers.start}: {dict(seen)}, {failures} failures")
    return failures


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("fuzz", __doc__)
    parser.add_argument("--kind", choices=["mixed", *KINDS], default="mixed")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1, help="the first exchange is number SEED * 10,000,000")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this exchange alone")
    parser.add_argument("--bytes", type=bytes.fromhex, metavar="HEX", help="this exchange of the guided fuzzer alone")
    parser.add_argument("--atheris", type=int, metavar="SECONDS", help="guided by coverage")
    given = parser.parse_args(arguments)
    one = KINDS.get(given.kind, mixed)
    if given.bytes is not None:
        print(one(FromBytes(given.bytes)))
        return 0
    if given.only is not None:
        print(one(Seeded(given.only)))
        return 0
    if given.atheris is not None:
        return guided(one, given.atheris)
    first = given.seed * 10_000_000
    return 1 if run(one, range(first, first + given.count)) else 0


if __name__ == "__main__":
    logging.getLogger("toolcall_middleware").setLevel(logging.ERROR)  # it warns of what is made up here
    sys.exit(main())
