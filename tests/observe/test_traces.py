"""Traces: what is in them, what never is, and that they are bounded."""

from __future__ import annotations

import errno
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.answers import NativeBackend
from tests.helpers.asgi_client import Backend, Client, ask
from tests.helpers.fakes import TextBackend, write_calls
from tests.response.streams import DONE, chunk, event, role
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.explain import explain
from toolcall_middleware.hosts.proxy.inspector.app import report_page
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.observe.content import content_of
from toolcall_middleware.observe.report import Recorder, Report, Room
from toolcall_middleware.observe.traces import Trace, TraceError, TraceFiles, read_trace

CALL = "Let me look. " + write_calls("hermes", ("weather", {"city": "Paris"}))


async def traced(folder: Path, body: bytes, text: str = CALL, backend: Any = None, **options: Any) -> list[Trace]:
    options = {"mode": "prompt", "format": "hermes", "trace_dir": str(folder), **options}
    app = ToolCallMiddleware(backend or TextBackend([text]), **options)
    headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer sk-secret"), (b"x-api-key", b"sk-2")]
    await Client(body, headers=headers).run(app)
    for observer in app._observers:
        if isinstance(observer, TraceFiles):
            observer.flush()
    return [read_trace(path.read_bytes()) for path in written(folder)]


def written(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


async def test_a_trace_holds_what_came_was_asked_decided_written_and_left_and_no_key(tmp_path: Path) -> None:
    (trace,) = await traced(tmp_path, ask())
    kinds = [row["kind"] for row in trace.rows]
    assert kinds[0] == "request"
    assert kinds.index("ask") < kinds.index("head") < kinds.index("backend") < kinds.index("client")
    assert json.loads(trace.rows[0]["data"])["model"] == "m"
    assert "weather" in next(row["data"] for row in trace.rows if row["kind"] == "ask")
    assert trace.summary["outcomes"] == ["clean"]
    assert (trace.summary["mode"], trace.summary["format"], trace.summary["end"]) == ("prompt", "hermes", "complete")
    times = [row["at"] for row in trace.rows]
    assert times == sorted(times)
    assert trace.summary["first_call"] is not None
    causes = [row["of"] for row in trace.rows if row["kind"] == "client" and row["of"] >= 0]
    assert causes
    assert {trace.rows[cause]["kind"] for cause in causes} <= {"backend", "event"}
    decided = {row["what"]: (row["value"], row["why"]) for row in trace.rows if row["kind"] == "decision"}
    assert decided["format"] == ("hermes", "format=hermes (keyword)")
    assert decided["mode"][0] == "prompt"
    assert "constraint" in decided
    (path,) = written(tmp_path)
    assert b"sk-" not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_the_first_call_has_its_time_in_native_mode_too(stream: bool, tmp_path: Path) -> None:
    """Where the backend's own call goes on as it came."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    (trace,) = await traced(tmp_path, ask(stream=stream), backend=NativeBackend({"tool_calls": [call]}), mode="native")
    assert trace.summary["calls"] == 1
    assert trace.summary["first_call"] is not None
    chunks = [role(), chunk({"content": "Hm."}), chunk({"tool_calls": [call]}), chunk({}, "tool_calls")]
    pieces = Backend(*map(event, chunks), DONE)
    (trace,) = await traced(tmp_path / "pieces", ask(stream=True), backend=pieces, mode="native")
    assert trace.summary["first_content"] < trace.summary["first_call"]
    (trace,) = await traced(tmp_path / "text", ask(stream=stream), backend=TextBackend(["Hi."]), mode="native")
    assert (trace.summary["first_call"], trace.summary["first_content"] is None) == (None, False)


async def test_what_is_decided_of_the_last_answer_is_told_too(tmp_path: Path) -> None:
    error = {"message": f"Failed to parse input at pos 0: {CALL}", "type": "server_error", "code": 500}
    app = Backend(json.dumps({"error": error}).encode(), status=500, headers=[(b"content-type", b"application/json")])
    (trace,) = await traced(tmp_path, ask(), backend=app, mode="native")
    decided = {row["what"]: row["value"] for row in trace.rows if row["kind"] == "decision"}
    assert decided["call"] == "unparsed"


async def test_another_attempt_says_what_led_to_it(tmp_path: Path) -> None:
    backend = TextBackend(["No.", CALL])
    (trace,) = await traced(tmp_path, ask(tool_choice="required", stream=False), backend=backend, constrain="off")
    assert [attempt["why"] for attempt in trace.summary["attempts"]] == ["first", "no_call"]
    assert any(row.get("what") == "ask again" for row in trace.rows)


async def test_a_sample_of_none_writes_none(tmp_path: Path) -> None:
    assert await traced(tmp_path, ask(), trace_sample=0) == []


async def test_a_trace_is_bounded(tmp_path: Path) -> None:
    (trace,) = await traced(tmp_path, ask(), text="prose " * 500, trace_max_bytes=20_000)
    assert trace.rows[-1]["kind"] == "cut"
    (path,) = written(tmp_path)
    assert path.stat().st_size < 60_000


async def test_a_request_that_passes_unread_has_no_content_in_it(tmp_path: Path) -> None:
    (trace,) = await traced(tmp_path, ask(tools=None))
    assert trace.summary["mode"] == "pass"
    assert [row["kind"] for row in trace.rows] == ["request", "passed"]


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "file"
    file.touch()
    files = TraceFiles(tmp_path / "inner", sample=1, max_bytes=10_000)
    (tmp_path / "inner").rmdir()
    (tmp_path / "inner").symlink_to(file / "gone")
    with caplog.at_level(logging.WARNING):
        fill(files, 1)
    assert [record.getMessage().startswith("trace_dir: ") for record in caplog.records] == [True]


def test_requests_of_one_id_in_one_second_have_a_file_each(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path, sample=1, max_bytes=10_000)
    outside = tmp_path / "outside"
    outside.write_text("kept")
    for size in range(1, 5):
        fill(files, size, name="same")
        if size == 2:  # what stands there already is never written through
            (tmp_path / "20231114T221320-same-3.part").symlink_to(outside)
    assert sorted(len(read_trace(path.read_bytes()).rows[0]["data"]) for path in written(tmp_path)) == [1, 2, 3, 4]
    assert {path.stat().st_mode & 0o777 for path in written(tmp_path)} == {0o600}
    assert outside.read_text() == "kept"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no trace"),
        (b'{"a": 1}', "no trace"),
        (b'{"toolcall_trace":2}', "version 2"),
        (b'{"toolcall_trace":1}\n{"at"', "line 2"),
        (b'{"toolcall_trace":1}\n{"kind":"end","outcomes":5}', "summary: .*outcomes"),
        (b'{"toolcall_trace":1}\n' + b"[" * 100_000, "line 2"),
    ],
)
def test_what_is_no_trace_says_why(data: bytes, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        read_trace(data)


def test_rows_that_make_no_sense_are_left_out() -> None:
    trace = read_trace(b'{"toolcall_trace":1,"id":"a"}\n{"kind":5,"at":1}\n"x"\n{"kind":"head","at":1}\n')
    assert trace.rows == [{"kind": "head", "at": 1}]
    assert trace.summary["id"] == "a"


CHANGED: tuple[Any, ...] = (None, True, -1, "x", [], [[]], {}, ...)
"""What stands in a changed trace; `...` is nothing at all."""


async def test_a_trace_that_was_changed_by_hand_is_shown_or_refused(tmp_path: Path) -> None:
    (chat,) = await traced(tmp_path, ask(stream=False))
    rows = [json.loads(line) for line in chat.encode().splitlines()]
    end = rows.pop()
    steps: tuple[dict[str, Any], ...] = (
        {"step": "text", "text": "a"},
        {"step": "call", "index": 0, "id": "c", "name": "f"},
        {"step": "arguments", "index": 0, "text": "{}"},
        {"step": "finish", "reason": "stop"},
    )
    rows += [{"at": 9.0, "kind": "client", **step} for step in steps]
    rows.append(end)
    shown = 0
    for place, row in enumerate(rows):
        for name in row:
            for value in CHANGED:
                other = {key: one for key, one in row.items() if key != name} | ({} if value is ... else {name: value})
                lines = (json.dumps(one) for one in [*rows[:place], other, *rows[place + 1 :]])
                try:
                    trace = read_trace("\n".join(lines).encode())
                except TraceError:
                    continue
                explained = explain(trace.rows, trace.summary)
                assert report_page(trace.summary, explained, trace.rows)
                content_of(trace.rows)
                assert Store().add(trace).summary["number"] == 1
                shown += 1
    assert shown > 300


def test_a_character_that_is_cut_between_two_pieces_is_whole() -> None:
    recorder = Recorder(0.0)
    smile = "😀".encode()
    recorder.data("ask", b"{}")
    recorder.data("backend", b"a" + smile[:1])
    recorder.data("client", b"b" + smile[:3])
    recorder.data("backend", smile[1:3])
    recorder.data("backend", smile[3:] + b"c" + smile[:2])
    recorder.data("client", smile[3:])
    recorder.data("ask", b"\xff")
    recorder.data("backend", b"d")
    said = [(row["kind"], row["data"]) for row in recorder.rows]
    backend = [text for kind, text in said if kind == "backend"]
    assert backend == ["a", "", "😀c", "d"]  # what broke off in the middle of a character ends before it
    assert [text for kind, text in said if kind == "client"] == ["b", "😀"]
    assert [text for kind, text in said if kind == "ask"] == ["{}", "\ufffd"]


def test_a_recorder_past_its_bytes_stays_cut() -> None:
    recorder = Recorder(0.0, 1000)
    for _ in range(100):
        recorder.data("backend", b"x" * 100)
    assert [row["kind"] for row in recorder.rows].count("cut") == 1
    assert recorder.size <= 1000


def fill(files: TraceFiles, size: int, at: float = 1_700_000_000.0, name: str = "x") -> None:
    """Write a trace with `size` bytes of content."""
    report = Report(id=name, wall=at)
    files.begin(report, {})
    assert report.recorder is not None
    report.recorder.data("backend", b"x" * size)
    files.end(report)
    files.flush()


def test_a_trace_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = TraceFiles(tmp_path, sample=1, max_bytes=10_000)

    def full(path: Path, _data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(Path, "write_bytes", full)
        fill(files, 100)
    assert [path.name for path in tmp_path.iterdir()] == []
    assert "No space left" in caplog.text
    assert files._room.taken == 0


def test_parts_of_a_process_that_died_are_removed_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "20231114T221320-x.part").write_text("{")
    (tmp_path / "notes.txt").write_text("kept")
    TraceFiles(tmp_path, sample=1, max_bytes=10_000)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_folder_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("x" * 100_000)  # not ours: neither counted nor removed
    files = TraceFiles(tmp_path, sample=1, max_bytes=100_000, max_total=50_000)
    for second in range(40):
        fill(files, 2000, 1_700_000_000.0 + second)
        assert sum(path.stat().st_size for path in written(tmp_path) if path.name != "mine.jsonl") <= 50_000
    names = [path.name for path in written(tmp_path)]
    assert "mine.jsonl" in names
    assert 15 < len(names) < 25
    assert names[-2] == "20231114T221359-x.jsonl"
    # Another process with a smaller bound holds to it from its start.
    TraceFiles(tmp_path, sample=1, max_bytes=100_000, max_total=10_000)
    assert len(written(tmp_path)) <= 5
    assert written(tmp_path)[-2].name == "20231114T221359-x.jsonl"


def test_requests_that_run_hold_no_more_than_the_room_of_all() -> None:
    room = Room(100_000)
    reports = [Report() for _ in range(5)]
    for report in reports:
        report.record(1 << 20, room)
    for number in range(500):
        recorder = reports[number % 5].recorder
        assert recorder is not None
        recorder.data("backend", b"x" * 1000)
    assert room.taken <= 100_000
    assert {report.recorder.rows[-1]["kind"] for report in reports if report.recorder is not None} == {"cut"}


def test_observers_that_want_less_do_not_cut_those_that_want_more() -> None:
    report = Report()
    report.record(1000, Room())
    assert report.record(5000, Room()).max_bytes == 5000
