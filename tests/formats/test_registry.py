from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from toolcall_middleware import FormatError, Settings, ToolCallMiddleware
from toolcall_middleware.cli.demo.scripted import ScriptedModel
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.auto import Auto

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "custom_format.py"

# The names that the documentation promises.
NAMES = """
auto json hermes reka granite4 ernie45 longcat qwen3_coder step3p5 seed_oss minicpm5 llama3_json pythonic
llama4_pythonic lfm2 olmo3 mistral_old mistral_v11 deepseek_v3 deepseek_v31 deepseek_v32 kimi_k2 kimi_k3 solar_open
glm45 glm47 hy_v3 harmony granite granite_20b_fc phi4_mini internlm jamba hunyuan nemotron xlam minimax_m2 minimax_m3
step3 functiongemma gemma4 cohere_command3 cohere_command4 gigachat3 apertus functionary_v31 functionary_v32
command_r dots gigachat35 inkling k2_horizon mirothinker muse_glimmer solar_open2
""".split()  # noqa: SIM905 - far easier to read


def test_every_documented_format_is_there_under_its_name() -> None:
    assert registry.names() == NAMES
    for name in NAMES:
        assert registry.get(name).name == name
        assert registry.get(name) is registry.get(name)


def test_an_unknown_name_is_an_error_that_says_what_there_is() -> None:
    with pytest.raises(FormatError, match=r"hermess is not a format; did you mean hermes\? known: auto, json"):
        registry.get("hermess")


@pytest.mark.parametrize("package", ["toolcall_middleware", "toolcall_middleware.exchange"])
def test_a_familys_file_is_imported_when_its_format_is_asked_for(package: str) -> None:
    code = f"""
import sys, {package}
from toolcall_middleware.formats import registry
registry.names()
def loaded():
    rooms = ("families.", "syntax.", "auto", "models")
    heads = tuple(f"toolcall_middleware.formats.{{room}}" for room in rooms)
    return [name.rpartition(".")[2] for name in sys.modules if name.startswith(heads)]
assert not loaded(), loaded()
registry.get("hermes")
assert "qwen" in loaded()
assert not {{"gemma", "mistral", "auto", "models"}} & set(loaded()), loaded()
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_command_lists_all_formats() -> None:
    command = [sys.executable, "-m", "toolcall_middleware", "formats", "--json"]
    out = subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout
    assert [row["name"] for row in json.loads(out)] == NAMES


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example as an installed package: its module and what an installer writes beside it."""
    (tmp_path / EXAMPLE.name).write_bytes(EXAMPLE.read_bytes())
    info = tmp_path / "guillemets-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guillemets\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.ENTRY_POINTS}]\n"
        "guillemets = custom_format:Guillemets\n"
        "broken = custom_format:Nothing\n"
        "hermes = custom_format:Guillemets\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._installed.cache_clear()
    yield
    sys.modules.pop("custom_format", None)
    registry._installed.cache_clear()
    registry.get.cache_clear()


@pytest.mark.usefixtures("installed")
def test_another_packages_format_is_found_and_cannot_replace_ours() -> None:
    assert registry.names() == [*NAMES, "broken", "guillemets"]
    fmt = registry.get("guillemets")
    assert type(fmt).__module__ == "custom_format"
    assert registry.for_model("guillemets", "Qwen/Qwen3-8B") is fmt
    assert type(registry.get("hermes")).__module__.startswith("toolcall_middleware.")
    with pytest.raises(FormatError, match=r"the format broken \(custom_format:Nothing\) cannot be loaded: .*Nothing"):
        registry.get("broken")


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("stream", [False, True])
async def test_another_packages_format_serves_a_whole_conversation(*, stream: bool) -> None:
    written = 'Let me see. <<call>> {"name": "weather", "arguments": {"city": "Oslo"}} <<end>>'
    model = ScriptedModel([written, "It rains in Oslo."])
    app = ToolCallMiddleware(model, settings=Settings(format="guillemets"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model") as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Rain?"}]
        first = await _ask(client, messages, stream=stream)
        (call,) = first["tool_calls"]
        assert call["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
        assert first["content"].strip() == "Let me see."
        result = {"role": "tool", "tool_call_id": call["id"], "content": "rain <<end>>"}
        last = await _ask(client, [*messages, {"role": "assistant", **first}, result], stream=stream)
    assert last["content"] == "It rains in Oslo."
    system, *rest = model.requests[1]["messages"]
    shown = 'A call looks like this: <<call>> {"name": "weather", "arguments": {"city": "Paris"}} <<end>>'
    assert shown in system["content"]
    assert [message["role"] for message in rest] == ["user", "assistant", "user"]
    assert rest[1]["content"].split() == written.split()
    assert '<tool_result name="weather">\nrain <<end>>\n</tool_result>' in rest[2]["content"]


async def _ask(client: httpx.AsyncClient, messages: list[dict[str, Any]], *, stream: bool) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}
    body = {"model": "m", "messages": messages, "tools": [tool], "stream": stream}
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    if not stream:
        message: dict[str, Any] = answer.json()["choices"][0]["message"]
        return {key: message[key] for key in ("content", "tool_calls") if message.get(key)}
    content = ""
    calls: dict[int, dict[str, Any]] = {}
    for line in answer.text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"id": piece.get("id"), "type": "function", "function": {}})
                for key, value in piece["function"].items():
                    call["function"][key] = call["function"].get(key, "") + value
    return {"content": content, **({"tool_calls": list(calls.values())} if calls else {})}


def test_auto_is_one_object_for_all_models_of_a_family() -> None:
    auto = registry.get("auto")
    assert isinstance(auto, Auto)
    for models, prompt in ((("Qwen/Qwen3-8B", "qwen2.5:7b"), "hermes"), (("my-model", "", "x" * 100_000), "json")):
        first, *others = (registry.for_model("auto", model) for model in models)
        assert isinstance(first, Auto)
        assert all(other is first for other in others)
        assert (first.name, first.prompt_name) == ("auto", prompt)
    assert registry.for_model("auto", "my-model") is auto
    assert registry.for_model("json", "Qwen/Qwen3-8B") is registry.get("json")
    assert registry.for_model("hermes", "openai/gpt-oss-20b") is registry.get("hermes")
