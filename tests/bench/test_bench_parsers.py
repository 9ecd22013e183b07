"""The benchmarks of parsers: ours alone, published ones as fakes, and what happens where an engine is not to be had."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

from tests.bench import goldens, parsers, published, readers, standins


@pytest.fixture
def _no_engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [])
    published.readers.cache_clear()
    yield
    published.readers.cache_clear()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, for packages with names that nobody else uses."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in {"fakengine", "faketorch"}]:
        del sys.modules[name]


def _file(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), "utf-8")


@pytest.mark.usefixtures("_no_engines")
def test_without_the_engines_the_tables_hold_the_other_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert published.readers() == ()
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("'")[0] for line in said] == ["vllm", "sglang"]
    table = parsers.run(smoke=True)
    assert {row.what.partition(", ")[2] for row in table.rows} == {
        "ours, hermes",
        "ours, auto, of hermes",
        "parsed again at each chunk",
        "parsed at its end",
        "ours, qwen3_coder",
        "ours, auto, of qwen3_coder",
    }
    assert capsys.readouterr().err == ""  # said once


def test_what_a_parser_looks_up_is_a_token_of_its_own() -> None:
    tokens = published.Tokens()
    vocabulary = tokens.get_vocab()
    begin, end = vocabulary.get("<tool_call>"), vocabulary.get("</tool_call>")
    ids = tokens.cut(["ab<tool_call>", "ab", "</tool", "_call>"])
    assert ids == [[vocabulary["ab"], begin], [vocabulary["ab"]], [vocabulary["</tool"]], [vocabulary["_call>"]]]
    assert tokens.decode([number for some in ids for number in some]) == "ab<tool_call>ab</tool_call>"
    assert begin != end
    assert "<think>" in vocabulary  # each marker is in it


def test_goldens_are_read_by_our_parsers_and_by_those_that_are_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = readers.Reader("vLLM 9's BlindParser", "hermes", lambda _p, _t: list, lambda _: readers.Answer([]))
    whole = dataclasses.replace(readers.AT_THE_END, name="SGLang 9's WholeParser")
    monkeypatch.setattr(goldens, "readers", lambda: (blind, whole))
    scores = goldens.score(limit=4)
    assert all(family.right["ours"] == family.cases > 0 for family in scores.values())
    assert scores["hermes"].right["SGLang"] > 0
    assert "vLLM" not in scores["hermes"].right  # it reads no call here: it is not driven rightly
    assert {"vLLM", "SGLang"}.isdisjoint(scores["json"].right)


class _Function(pydantic.BaseModel):
    name: str | None = None
    arguments: str | None = None


class _FakeVLLM:
    """Says the text so far on each call; `finish_streaming` only where the engine keeps what came by itself."""

    engine_based_streaming = False

    def __init__(self, tokenizer: Any, tools: list[Any]) -> None:
        tokenizer.get_vocab().get("<tool_call>")
        assert [tool.function.name for tool in tools] == ["write_file"]
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.streamed_args_for_tool: list[str] = []

    def extract_tool_calls_streaming(
        self, before: str, now: str, new: str, ids_before: list[int], ids_now: list[int], ids: list[int], request: Any
    ) -> Any:
        assert request.tool_choice == "auto"
        if self.engine_based_streaming:
            assert (before, now, ids_before, ids_now) == ("", new, [], ids)
        else:
            assert (before + new, [*ids_before, *ids]) == (now, ids_now)
        if now == "a":
            return types.SimpleNamespace(content="Well.", tool_calls=[])
        if new == "b":
            self.prev_tool_call_arr = [{"name": "write_file", "arguments": '{"x": [1]}'}]
            self.streamed_args_for_tool = ['{"x": [']
            parts = (_Function(name="write_file"), _Function(arguments='{"x": ['))
            deltas = [types.SimpleNamespace(index=0, function=part) for part in parts]
            return types.SimpleNamespace(content=None, tool_calls=deltas)
        return None


class _FakeEngine(_FakeVLLM):
    engine_based_streaming = True

    def finish_streaming(self) -> Any:
        return types.SimpleNamespace(content=" Done.", tool_calls=[])


def _fake_protocol() -> Any:
    def tool(function: dict[str, Any], **_: Any) -> Any:
        return types.SimpleNamespace(function=types.SimpleNamespace(name=function["name"]))

    return types.SimpleNamespace(ChatCompletionToolsParam=tool, ChatCompletionRequest=types.SimpleNamespace, Tool=tool)


@pytest.mark.parametrize(("parser", "text"), [(_FakeVLLM, "Well."), (_FakeEngine, "Well. Done.")])
def test_a_parser_with_the_face_of_vllms_is_driven_as_its_server_does(parser: type[_FakeVLLM], text: str) -> None:
    read = published.vllm_begin(parser, _fake_protocol())(["a", "b", "c"], parsers.TOOLS)
    answer = published.vllm_merge(read())
    assert answer == readers.Answer([("write_file", '{"x": [1]}')], text)
    assert published.vllm_merge(read()) == answer  # a parser of its own each time


class _FakeSGLang:
    def __init__(self) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.streamed_args_for_tool: list[str] = []

    def parse_streaming_increment(self, new: str, tools: list[Any]) -> Any:
        assert [tool.function.name for tool in tools] == ["write_file"]
        if new != "b":
            return types.SimpleNamespace(normal_text=new, calls=[])
        self.prev_tool_call_arr.append({"name": "write_file", "arguments": {"x": "é"}})
        self.streamed_args_for_tool.append('{"x": "')
        call = types.SimpleNamespace(tool_index=0, name="write_file", parameters='{"x": "')
        return types.SimpleNamespace(normal_text="", calls=[call])

    def finish(self, _tools: list[Any]) -> Any:
        return types.SimpleNamespace(normal_text="!", calls=[])


def test_a_parser_with_the_face_of_sglangs_is_driven_as_its_server_does() -> None:
    read = published.sglang_begin(_FakeSGLang, _fake_protocol())(["a", "b", "c"], parsers.TOOLS)
    assert published.sglang_merge(read()) == readers.Answer([("write_file", '{"x": "é"}')], "ac!")


def test_nothing_is_added_that_contradicts_what_has_left() -> None:
    parser = types.SimpleNamespace(prev_tool_call_arr=[{"arguments": {"a": 1}}], streamed_args_for_tool=['{"a":1'])
    assert published.unsent(parser) == []
    assert published.unsent(types.SimpleNamespace(prev_tool_call_arr=[{}, {}], streamed_args_for_tool=["{}"])) == []
    assert published.unsent(types.SimpleNamespace(prev_tool_call_arr=[], streamed_args_for_tool=[])) == []


def test_a_module_loads_alone_and_stand_ins_cannot_be_called(place: Path) -> None:
    _file(place / "fakengine/__init__.py", "raise RuntimeError('the whole engine is loaded')")
    _file(place / "fakengine/config.py", "raise RuntimeError('its configuration is loaded')")
    _file(place / "fakengine/tools/values.py", "ANSWER = 42")
    _file(
        place / "fakengine/tools/parser.py",
        """
        import faketorch
        import pydantic
        from faketorch.cuda import Stream
        from fakengine.config import Config, load
        from fakengine.tools import values, other

        class Request(pydantic.BaseModel):
            config: Config | None = None

        def parse(weights: faketorch.Tensor | None, layer: faketorch.nn.Module) -> int:
            from fakengine.tools.values import ANSWER
            return ANSWER

        def needs_more():
            return load()
        """,
    )
    real = frozenset({"fakengine.tools.parser", "fakengine.tools.values"})
    with standins.alone(place / "fakengine", real, ["faketorch"]):
        parser = importlib.import_module("fakengine.tools.parser")
    assert parser.parse(None, None) == parser.values.ANSWER == 42
    assert parser.Request(config=None).config is None
    with pytest.raises(TypeError, match=r"fakengine\.config\.load stands in for the real one"):
        parser.needs_more()
    assert not isinstance(parser, parser.Stream)
    assert "faketorch" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("faketorch")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_version_that_is_arranged_in_another_way_is_left_out_with_a_word(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _file(tmp_path / engine / "__init__.py")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] in {"vllm", "sglang", "torch"}]:
        monkeypatch.delitem(sys.modules, name)
    published.readers.cache_clear()
    try:
        assert not [reader for reader in published.readers() if reader.name.lower().startswith(engine)]
    finally:
        published.readers.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == engine]:
            del sys.modules[name]
    assert f"{engine}'s parsers are left out" in capsys.readouterr().err
