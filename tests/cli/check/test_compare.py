"""`check --compare`: what got better, worse, stayed equal; the exit code is for CI."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.helpers.fakes import serve
from toolcall_middleware.cli import main
from toolcall_middleware.cli.check.report.compare import Change, compare
from toolcall_middleware.cli.check.report.document import Document, Latency, document
from toolcall_middleware.cli.check.report.folder import publish

from .engines import Vllm, VllmHermes
from .test_report import TODAY, a_report


def made(*, right: int = 4, repaired: int = 0, **fields: Any) -> Document:
    one = document(
        a_report(right=right, **{name: fields.pop(name) for name in ("model",) if name in fields}), today=TODAY
    )
    calls = msgspec.structs.replace(one.calls[0], right=right - repaired, repaired=repaired)
    return msgspec.structs.replace(one, calls=(calls,), **fields)


def changes(before: Document, after: Document) -> dict[str, Change]:
    return {row.what: row.change for row in compare([before], [after])}


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({"right": 4}, {"right": 4}, Change.EQUAL),
        ({"right": 3}, {"right": 4}, Change.BETTER),
        ({"right": 4}, {"right": 3}, Change.WORSE),
        ({"right": 4}, {"right": 4, "repaired": 2}, Change.WORSE),
        ({"right": 2}, {"right": 4, "repaired": 4}, Change.BETTER),
    ],
)
def test_right_calls_count_first_and_repairs_second(
    before: dict[str, int], after: dict[str, int], change: Change
) -> None:
    assert changes(made(**before), made(**after))["prompt json, auto"] is change


def test_what_a_backend_can_do_is_compared() -> None:
    old = made()
    (finding,) = old.findings
    better = msgspec.structs.replace(old, findings=(msgspec.structs.replace(finding, verdict="yes"),))
    unknown = msgspec.structs.replace(old, findings=(msgspec.structs.replace(finding, verdict="unknown"),))
    assert changes(old, better)["tools, whole"] is Change.BETTER
    assert changes(better, old)["tools, whole"] is Change.WORSE
    assert "tools, whole" not in changes(old, unknown)


def test_a_way_that_only_one_has_is_neither_better_nor_worse() -> None:
    old = made()
    more = msgspec.structs.replace(old, calls=(*old.calls, msgspec.structs.replace(old.calls[0], format="hermes")))
    assert changes(old, more)["prompt hermes, auto"] is Change.ONLY_B
    assert changes(more, old)["prompt hermes, auto"] is Change.ONLY_A


def test_time_is_told_and_not_judged() -> None:
    old = made()
    calls = msgspec.structs.replace(old.calls[0], latency=Latency(median=9, longest=9))
    slow = msgspec.structs.replace(old, calls=(calls,))
    (row,) = [row for row in compare([old], [slow]) if row.what.startswith("prompt")]
    assert row.change is Change.EQUAL
    assert row.after.endswith("9.00 s")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolcall_middleware", "check", "--compare", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_two_checks_are_compared_from_the_command_line(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, engine in ((before, VllmHermes({"hermes"})), (after, Vllm({"hermes"}))):
        with serve(engine) as url:
            main(["check", "--upstream", f"{url}/v1", "--report", str(folder), "--format", "hermes"])
    same = run(before, before)
    assert (same.returncode, same.stderr) == (0, "")
    assert "equal" in same.stdout
    assert "worse" not in same.stdout
    # Without its flags the backend has no calls of its own.
    (file,) = after.glob("*.json")
    worse = run(before, file)
    assert worse.returncode == 1
    assert "  worse      tools, whole: yes -> no\n" in worse.stdout
    assert "  only in A  native, auto: 4/4 right" in worse.stdout
    told = json.loads(run(before, after, "--json").stdout)
    assert told["counts"]["worse"] == sum(row["change"] == "worse" for row in told["rows"]) > 0


def test_folders_are_compared_by_backend_and_model(tmp_path: Path) -> None:
    for name, right in (("a", 4), ("b", 1)):
        for folder, number in (("before", right), ("after", 4)):
            (tmp_path / folder).mkdir(exist_ok=True)
            publish(a_report(name, right=number), tmp_path / folder)
    done = run(tmp_path / "before", tmp_path / "after")
    assert done.returncode == 0
    assert done.stdout.startswith("b on vLLM\n  better     prompt json, auto: 1/4 right")


@pytest.mark.parametrize("content", [None, "{", "[1]", '{"kind": "x"}'])
def test_what_is_no_report_is_told(tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content, "utf-8")
    assert main(["check", "--compare", str(path), str(tmp_path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_other_questions_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(a_report(), tmp_path)
    other = a_report()
    other.questions = ["Another?"]
    (tmp_path / "b").mkdir()
    publish(other, tmp_path / "b")
    assert main(["check", "--compare", str(tmp_path), str(tmp_path / "b")]) == 2
    assert "other questions were asked" in capsys.readouterr().err


def test_nothing_in_common_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, names in (("a", "xy"), ("b", "uv")):
        (tmp_path / folder).mkdir()
        for name in names:
            publish(a_report(name), tmp_path / folder)
    assert main(["check", "--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "nothing in common" in capsys.readouterr().err
