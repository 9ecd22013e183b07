"""The script that begins a new family's goldens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolcall_middleware.formats import registry

from .. import new_family
from ..parsing.streams import read
from . import goldens


@pytest.mark.parametrize("name", goldens.formats())
def test_what_a_family_writes_is_a_skeleton_that_it_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.jsonl"
    count = new_family.write(name, path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == count
    wanted = {
        f"{name}-{variant}" for variant in ("single", "parallel", "no-arguments", "unicode", "nested", "cut-late")
    }
    assert wanted <= {row["id"] for row in rows}
    for row in rows:
        case = goldens.Case(**row)
        case.check(read(case.reader(registry.get(name)), list(case.text), cut=case.ends_cut))


def test_a_file_that_is_there_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = (goldens.FOLDER / "hermes.jsonl").read_bytes()
    assert new_family.main(["hermes"]) == 2
    assert "exists" in capsys.readouterr().err
    assert (goldens.FOLDER / "hermes.jsonl").read_bytes() == before


def test_a_family_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert new_family.main(["klingon"]) == 2
    assert "klingon is not a format" in capsys.readouterr().err


def test_it_says_what_is_left_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    assert new_family.main(["hermes"]) == 0
    said = capsys.readouterr().out
    assert str(tmp_path / "hermes.jsonl") in said
    assert "python -m pytest tests/formats -k hermes" in said
    assert "SPECIAL" not in said
    assert new_family.main(["apertus"]) == 0
    assert "its name into SPECIAL in tests/formats/test_families.py" in capsys.readouterr().out
