"""See the package: `python -m tests.same OLD NEW`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import __doc__ as about
from .compare import Comparison, compare, read_allowed, read_hashes, section, shown, spread

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "toolcall_middleware"
SECTIONS = ("prompts", "requests", "goldens", "mutated", "wire", "fuzzed", "recorded", "proxy", "cli")
_QUICK, _FULL = 1000, 10_000
_QUICK_MUTATED, _FULL_MUTATED = 3000, 30_000


def main(arguments: list[str] | None = None) -> int:
    """0: no difference but what is allowed; 1: differences; 2: a side could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.same", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, help="a checkout")
    parser.add_argument("new", type=Path, help="another")
    parser.add_argument("--quick", action="store_true", help="a minute and a half of CPU")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="of %(default)s")
    parser.add_argument("--only", default="*", metavar="GLOB", help="of names without their last part: cli/help/*")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="differences to show (default: %(default)s)")
    parser.add_argument("--allow", type=Path, metavar="FILE", help="the differences that are wanted")
    parser.add_argument("--fuzzed", type=int, metavar="N", help=f"random exchanges (default: {_FULL}, quick {_QUICK})")
    help_mutated = f"damaged goldens (default: {_FULL_MUTATED}, quick {_QUICK_MUTATED})"
    parser.add_argument("--mutated", type=int, metavar="N", help=help_mutated)
    parser.add_argument("--seed", type=int, default=12, help="of both (default: %(default)s)")
    given = parser.parse_args(arguments)
    sections = given.sections.split(",")
    unknown = sorted(set(sections) - set(SECTIONS))
    if unknown:
        parser.error(f"no such section: {', '.join(unknown)}")
    for folder in (given.old, given.new):
        if not (folder / PACKAGE / "__init__.py").is_file():
            parser.error(f"{folder} is no checkout: it has no {PACKAGE}")
    try:
        allowed = [] if given.allow is None else read_allowed(given.allow)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    count = given.fuzzed if given.fuzzed is not None else _QUICK if given.quick else _FULL
    mutated = given.mutated if given.mutated is not None else _QUICK_MUTATED if given.quick else _FULL_MUTATED
    options = ["--only", given.only, "--mutated", str(mutated), "--seed", str(given.seed)]
    options += ["--quick"] if given.quick else []
    with tempfile.TemporaryDirectory(prefix="same") as temporary:
        pair = Pair(given.old, given.new, Path(temporary), sections, options)
        try:
            if {"fuzzed", "proxy"} & set(sections):
                pair.make_inputs(count, given.seed)
            old, new = pair.hashes()
            found = compare(old, new, allowed)
            texts = pair.texts(spread(found.differing, given.show))
        except RunError as error:
            print(error, file=sys.stderr)
            return 2
    for name, (one, other) in texts.items():
        print(shown(name, one, other), end="\n\n")
    print(_summary(found))
    for entry in allowed:
        if entry.glob in found.wanted:
            print(f"allowed: {found.wanted[entry.glob]} of {entry.glob}: {entry.reason}")
        else:
            print(f"allowed, but nothing differs: {entry.glob}")
    return 1 if found.differing else 0


class RunError(Exception):
    """A side could not be run."""


class Pair:
    """Two checkouts, each run in a process of its own, at the same time."""

    def __init__(self, old: Path, new: Path, folder: Path, sections: list[str], options: list[str]) -> None:
        self._checkouts = {"OLD": old.resolve(), "NEW": new.resolve()}
        self._folder = folder
        self._options = ["--sections", ",".join(sections), *options]
        self._inputs = folder / "inputs.jsonl"
        for name, checkout in self._checkouts.items():
            # The package of the one, the driver and its material of this tree: both as if in one checkout.
            (folder / name).mkdir()
            (folder / name / PACKAGE).symlink_to(checkout / PACKAGE)
            (folder / name / "tests").symlink_to(ROOT / "tests")

    def make_inputs(self, count: int, seed: int) -> None:
        """The random exchanges, once for both sides."""
        command = [sys.executable, "-m", "tests.same.inputs", str(self._inputs), str(count), str(seed)]
        done = subprocess.run(command, check=False, cwd=ROOT, env=_environment(ROOT))
        if done.returncode:
            raise RunError("the random exchanges could not be made")

    def hashes(self) -> tuple[dict[str, str], dict[str, str]]:
        """The hashes of both sides."""
        old, new = self._run([])
        return read_hashes(old), read_hashes(new)

    def texts(self, names: list[str]) -> dict[str, tuple[str | None, str | None]]:
        """Both texts of these items."""
        if not names:
            return {}
        only = self._folder / "only.json"
        only.write_text(json.dumps(names), "utf-8")
        sections = {section(name): None for name in names}
        self._options[1] = ",".join(sections)
        old, new = [
            {row["name"]: row["text"] for row in map(json.loads, path.read_text("utf-8").splitlines())}
            for path in self._run(["--texts", str(only)])
        ]
        return {name: (old.get(name), new.get(name)) for name in names}

    def _run(self, more: list[str]) -> list[Path]:
        outs = [self._folder / f"{name}.{len(more)}.txt" for name in self._checkouts]
        begin = time.monotonic()
        running = [
            subprocess.Popen(
                [
                    sys.executable, "-m", "tests.same.side", "--out", str(out), "--inputs", str(self._inputs),
                    "--package", str(checkout / PACKAGE), *self._options, *more,
                ],
                cwd=self._folder / name,
                env=_environment(self._folder / name),
                stderr=subprocess.PIPE,
                text=True,
            )
            for out, (name, checkout) in zip(outs, self._checkouts.items(), strict=True)
        ]  # fmt: skip
        said = [process.communicate()[1] for process in running]
        for name, text, process in zip(self._checkouts, said, running, strict=True):
            for line in text.splitlines():
                print(f"{name} {line}", file=sys.stderr)
            if process.returncode:
                raise RunError(f"{name} could not be run")
        if not more:
            print(f"both in {time.monotonic() - begin:.0f} s", file=sys.stderr)
        return outs


def _environment(root: Path) -> dict[str, str]:
    """Ours, without settings, and with what would make a difference between two runs fixed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCALL_")}
    fixed = {"PYTHONPATH": str(root), "PYTHONHASHSEED": "0", "COLUMNS": "100", "NO_COLOR": "1", "TZ": "UTC"}
    return kept | fixed | {"PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}


def _summary(found: Comparison) -> str:
    differing, allowed = Counter(map(section, found.differing)), Counter(map(section, found.allowed))
    lines = [
        f"{name:10}{count:8} items{differing[name]:8} differ{allowed[name]:8} allowed"
        for name, count in found.items.items()
    ]
    total = f"{'in all':10}{found.items.total():8} items{len(found.differing):8} differ{len(found.allowed):8} allowed"
    return "\n".join([*lines, total])


if __name__ == "__main__":
    sys.exit(main())
