"""The comparison of two checkouts: equal trees are equal, and each kind of difference is told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.same import inputs, material
from tests.same.compare import Allowed, compare, read_allowed, read_hashes, shown, spread

ROOT = Path(__file__).parents[2]


def run(old: Path, new: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.same", str(old), str(new), "--quick", *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=100)


def changed(folder: Path) -> Path:
    """A copy of the package in which each setting's value looks otherwise."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "toolcall_middleware", folder / "toolcall_middleware", ignore=ignored)
    with (folder / "toolcall_middleware/__init__.py").open("a", encoding="utf-8") as file:
        file.write("from .settings import Settings\n_explain = Settings.explain\n")
        file.write("Settings.explain = lambda self: [(name, f'<{value}>', at) for name, value, at in _explain(self)]\n")
    return folder


# -- the comparison ----------------------------------------------------------------------------------------------------


def test_what_one_side_says_otherwise_or_not_at_all_differs() -> None:
    found = compare({"a/1": "x", "a/2": "x", "b/1": "x"}, {"a/1": "x", "a/2": "y", "b/2": "x"}, [])
    assert found.differing == ["a/2", "b/1", "b/2"]
    assert found.items == {"a": 2, "b": 2}


def test_a_difference_that_is_wanted_is_counted_and_fails_nothing() -> None:
    allowed = [Allowed("cli/help/*", "a new command"), Allowed("wire/*", "nothing yet")]
    found = compare({"cli/help/a": "x", "cli/run": "x"}, {"cli/help/a": "y", "cli/run": "y"}, allowed)
    assert (found.differing, found.allowed) == (["cli/run"], ["cli/help/a"])
    assert found.wanted == {"cli/help/*": 1}


def test_each_allowed_difference_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "allowed.txt"
    path.write_text("# comment\n\ncli/*/out   help names a command\n", "utf-8")
    assert read_allowed(path) == [Allowed("cli/*/out", "help names a command")]
    path.write_text("cli/*\n", "utf-8")
    with pytest.raises(ValueError, match=r"allowed.txt:1: cli/\* has no reason"):
        read_allowed(path)


def test_a_name_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "hashes"
    path.write_text("a/1\tx\na/1\tx\n", "utf-8")
    with pytest.raises(ValueError, match="a/1"):
        read_hashes(path)


def test_a_difference_is_shown_from_where_it_begins() -> None:
    text = shown("a/1", "x" * 500 + "one\n", "x" * 500 + "two\n")
    assert "at character 500" in text
    assert [line.rpartition("x")[2] for line in text.split("\n")[1:]] == ["one\\n", "two\\n"]
    assert "only in NEW" in shown("a/1", None, "x")


def test_of_many_differences_one_of_each_kind_is_shown_first() -> None:
    names = ["a/1/out", "a/2/out", "a/3/err", "b/1/out"]
    assert spread(names, 3) == ["a/1/out", "a/3/err", "b/1/out"]
    assert spread(names, 10) == ["a/1/out", "a/3/err", "b/1/out", "a/2/out"]


# -- what both sides are given -----------------------------------------------------------------------------------------


def test_a_stream_cut_into_events_is_whole() -> None:
    data = b"data: 1\n\ndata: 2\r\n\r\n: x\r\rdata: [DONE]"
    assert material.events(data) == [b"data: 1\n\n", b"data: 2\r\n\r\n", b": x\r\r", b"data: [DONE]"]


def test_random_exchanges_are_the_same_for_the_same_seed_and_of_all_kinds() -> None:
    made = inputs.exchanges(60, 1)
    assert made == inputs.exchanges(60, 1)
    assert made != inputs.exchanges(60, 2)
    assert {one["name"].partition("-")[2] for one in made} == set(inputs.KINDS)
    assert json.loads(json.dumps(made)) == made


# -- two checkouts -----------------------------------------------------------------------------------------------------


def test_a_tree_is_equal_to_itself_and_nothing_is_an_exception() -> None:
    done = run(ROOT, ROOT, "--sections", "fuzzed,proxy", "--fuzzed", "15", "--only", "*/*[0-9]-*")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^in all +[1-9]\d+ items +0 differ", done.stdout, re.MULTILINE), done.stdout
    assert done.stderr.count("exceptions: 0") == 2, done.stderr


def test_a_change_is_told_and_can_be_allowed(tmp_path: Path) -> None:
    other = changed(tmp_path / "other")
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("settings/* a new look\ncli/config/[a-m]*/* a new look\nprompts/* never\n", "utf-8")
    arguments = ("--sections", "cli", "--only", "cli/config/*", "--show", "30", "--allow", str(allowed))
    done = run(ROOT, other, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "cli/config/nothing/out: at character" in done.stdout
    assert "<prompt>" in done.stdout
    assert "cli/config/gateway" not in done.stdout
    assert "of cli/config/[a-m]*/*: a new look" in done.stdout
    assert "allowed, but nothing differs: prompts/*" in done.stdout


def test_what_is_no_checkout_and_no_section_is_refused(tmp_path: Path) -> None:
    assert "is no checkout" in run(ROOT, tmp_path).stderr
    assert "no such section: prompt" in run(ROOT, ROOT, "--sections", "prompt").stderr
