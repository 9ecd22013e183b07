"""`check --report`: what is published is true, safe to show, and says nothing of where the backend is."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.helpers.fakes import serve
from toolcall_middleware.cli import main
from toolcall_middleware.cli.check.findings import Finding, Latency, Questions, Report, Score, Verdict
from toolcall_middleware.cli.check.report import document, page, publish, read_folder

from .engines import Engine, Vllm, VllmHermes
from .test_command import KEY, run

HOSTILE = "m</title><script>alert(1)</script>\"'&\u202eevil\x1b[2J"


class TrailingComma(Vllm):
    """Writes the calls that are meant with a comma too many."""

    def text(self, body: dict[str, Any]) -> str:
        return super().text(body).replace("}}", ",}}")


class Shown(html.parser.HTMLParser):
    """The elements, addresses and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "action", "data", "srcset"}]
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def only(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*.json")
    made: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return made


def a_report(model: str = "m", *, backend: str = "vLLM", right: int = 4, detail: str = "") -> Report:
    return Report(
        version="1",
        date="2026-05-01",
        upstream="http://10.0.0.7:8000/v1",
        model=model,
        models=[model],
        backend=backend,
        questions=Questions(asked=4, prompts=("What is it?",) * 4),
        findings=[Finding("native.whole", "tools, whole", Verdict.NO, detail)],
        calls=[
            Score(
                "prompt",
                "json",
                "auto",
                writes="json",
                asked=4,
                right=right,
                wrong=4 - right,
                latency=Latency(1.0, 1.5),
                faults=["no call"],
            )
        ],
    )


def test_a_check_writes_a_page_and_json_that_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "reports"
    monkeypatch.setenv("TOOLCALL_UPSTREAM_KEY", KEY)
    with serve(VllmHermes({"hermes"}, key=KEY)) as url:
        code, _, err = run(capsys, "--upstream", url, "--report", str(folder), "--backend", "vLLM 0.33")
    assert code == 0
    assert f"the report is {folder}/index.html" in err
    made = only(folder)
    assert (made["kind"], made["model"], made["backend"]) == (
        "toolcall-middleware check 1",
        "Qwen/Qwen2.5-0.5B-Instruct",
        "vLLM 0.33",
    )
    native = made["calls"][0]
    assert {name: native[name] for name in ("mode", "tool_choice", "asked", "right", "repaired", "wrong")} == {
        "mode": "native",
        "tool_choice": "auto",
        "asked": 4,
        "right": 4,
        "repaired": 0,
        "wrong": 0,
    }
    assert 0 < native["latency"]["median"] <= native["latency"]["longest"] < 60
    assert native["tokens"]["prompt"] == 70.0
    assert native["tokens"]["completion"] > 0
    assert made["questions"]["prompts"][0] == "What is the weather in Paris right now?"
    shown = Shown((folder / "index.html").read_text("utf-8"))
    assert "Qwen/Qwen2.5-0.5B-Instruct on vLLM 0.33" in shown.text
    assert "TOOLCALL_MODE=native" in shown.text
    published = "".join(path.read_text("utf-8") for path in folder.iterdir())
    assert KEY not in published
    assert url.partition("://")[2] not in published


def test_repaired_calls_are_counted_apart_whole_and_streamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(TrailingComma({"json"})) as url:
        code, out, _ = run(capsys, "--upstream", f"{url}/v1", "--report", str(tmp_path), "--format", "json", "--json")
    assert code == 0
    by_choice = {(one["tool_choice"], one["constrain"]): one for one in only(tmp_path)["calls"]}
    auto = by_choice["auto", "off"]
    assert (auto["right"], auto["repaired"], auto["wrong"]) == (0, 4, 0)
    told = json.loads(out)
    assert told["calls"] == only(tmp_path)["calls"]
    assert told["upstream"] == f"{url}/v1"


def test_several_models_and_backends_are_one_page(tmp_path: Path) -> None:
    for report in (a_report("a"), a_report("b", right=1), a_report("a", backend="SGLang"), a_report("a", right=2)):
        publish(report, tmp_path)
    found = read_folder(tmp_path)
    assert [(one.backend, one.model) for one in found] == [("SGLang", "a"), ("vLLM", "a"), ("vLLM", "b")]
    assert found[1].calls[0].right == 2  # the later one of the same
    shown = Shown((tmp_path / "index.html").read_text("utf-8"))
    assert re.findall(r"^(\w+ on \w+)$", shown.text, re.MULTILINE) == ["a on SGLang", "a on vLLM", "b on vLLM"]
    assert re.search(r"^  prompt, format=json, auto +1 +0 +3 +1.00 +1.50", shown.text, re.MULTILINE)
    assert shown.text.count("  prompt, format=json, auto: no call\n") == 3
    assert shown.text.count("  What is it?\n") == 3 * 4


def test_names_that_only_look_the_same_as_files_are_kept_apart(tmp_path: Path) -> None:
    for model in ("a/b", "a-b", "a b", "../../a", "\u00e4"):
        (tmp_path / "reports").mkdir(exist_ok=True)
        publish(a_report(model), tmp_path / "reports")
    assert len(read_folder(tmp_path / "reports")) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


def test_what_a_backend_says_is_never_markup() -> None:
    made = document(a_report(HOSTILE, backend=HOSTILE, detail=HOSTILE))
    text = page([made, msgspec.structs.replace(made, settings={"TOOLCALL_FORMAT": HOSTILE})])
    shown = Shown(text)
    assert "script" not in shown.tags
    assert "alert(1)" in shown.text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "default-src 'none'" in text


def test_a_report_that_somebody_else_wrote_is_never_markup(tmp_path: Path) -> None:
    made = document(a_report())
    calls = msgspec.structs.replace(made.calls[0], mode=HOSTILE, format=HOSTILE, writes=HOSTILE, faults=[HOSTILE])
    other = msgspec.structs.replace(made, date=HOSTILE, version=HOSTILE, api=HOSTILE, calls=[calls])
    (tmp_path / "other.json").write_bytes(msgspec.json.encode(other))
    publish(a_report(), tmp_path)
    assert "script" not in Shown((tmp_path / "index.html").read_text("utf-8")).tags


def test_a_report_that_was_printed_as_json_is_shown_without_its_address(tmp_path: Path) -> None:
    (tmp_path / "printed.json").write_bytes(msgspec.json.encode(a_report("a", detail="x" * 1000)))
    publish(a_report("b"), tmp_path)
    written = (tmp_path / "index.html").read_text("utf-8")
    assert len(read_folder(tmp_path)) == 2
    assert "10.0.0.7" not in written
    assert written.count("Each way to get calls") == 2  # which only a published report has


def test_the_page_loads_nothing_and_is_readable_in_the_dark() -> None:
    text = page([document(a_report())])
    shown = Shown(text)
    assert shown.links == []
    assert not {"script", "link", "img", "iframe", "form"} & shown.tags
    assert not re.search(r"url\(|@import|https?:", text)
    assert "color-scheme: light dark" in text


def test_addresses_and_paths_are_kept_out() -> None:
    model = "/home/alice/models/qwen.gguf"
    detail = f"model {model} at http://gpu7.corp.example:8000/v1?key=abc is busy"
    made = document(a_report(model, detail=detail))
    assert made.model == "qwen.gguf"
    assert made.findings[0].detail == "model qwen.gguf at (address) is busy"
    published = msgspec.json.encode(made).decode()
    assert not re.search(r"alice|gpu7|10\.0\.0\.7", published)


def test_the_folder_of_a_template_is_kept_out() -> None:
    report = a_report()
    report.template = "/home/alice/models/acme-9b"
    report.settings = {"TOOLCALL_TEMPLATE": report.template}
    made = document(report)
    assert made.settings == {"TOOLCALL_TEMPLATE": "acme-9b"}
    assert "alice" not in msgspec.json.encode(made).decode()


@pytest.mark.parametrize("junk", [b"{", b"[]", b"[" * 100_000, b'{"kind": "another"}', b"\xff"])
def test_files_that_are_no_reports_are_passed_over(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "junk.json").write_bytes(junk)
    publish(a_report(), tmp_path)
    assert len(read_folder(tmp_path)) == 1


def test_a_page_of_somebody_else_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "index.html").write_text("<h1>my shop</h1>", "utf-8")
    engine = Engine()
    with serve(engine) as url:
        assert main(["check", "--upstream", url, "--report", str(tmp_path)]) == 2
    assert "is not ours" in capsys.readouterr().err
    assert not engine.requests  # said before anything was asked
    assert (tmp_path / "index.html").read_text("utf-8") == "<h1>my shop</h1>"


def test_a_folder_that_cannot_be_is_told_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    assert main(["check", "--upstream", "http://127.0.0.1:9", "--report", str(tmp_path / "file")]) == 2
    assert "--report" in capsys.readouterr().err


def test_a_report_reads_back_as_it_was_written(tmp_path: Path) -> None:
    made = document(a_report())
    assert msgspec.json.decode(msgspec.json.encode(made), type=Report) == made
    assert publish(a_report(), tmp_path) == tmp_path / "index.html"
