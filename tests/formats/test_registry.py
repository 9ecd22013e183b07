from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.helpers.received import received
from toolcall_middleware import FormatError, Settings, ToolCallMiddleware
from toolcall_middleware.cli.demo.scripted import ScriptedModel
from toolcall_middleware.cli.faces.answers import Received
from toolcall_middleware.formats import families, markup, registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.families import prompted
from toolcall_middleware.formats.family import Family, one_of
from toolcall_middleware.formats.prompt import escaping
from toolcall_middleware.formats.syntax.shape import json_calls, opener, shared
from toolcall_middleware.formats.syntax.slots import FUNCTIONS
from toolcall_middleware.model import ToolCall
from toolcall_middleware.parsing.events import Stop

from ..parsing.streams import calls_in, read, text_in, thought_in

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "custom_format.py"

# The names that the documentation promises, in its order. What is added comes behind them.
NAMES = """
auto json hermes reka granite4 ernie45 longcat qwen3_coder step3p5 seed_oss minicpm5 llama3_json pythonic
llama4_pythonic lfm2 olmo3 mistral_old mistral_v11 deepseek_v3 deepseek_v31 deepseek_v32 kimi_k2 kimi_k3 solar_open
glm45 glm47 hy_v3 harmony granite granite_20b_fc phi4_mini internlm jamba hunyuan nemotron xlam minimax_m2 minimax_m3
step3 functiongemma gemma4 cohere_command3 cohere_command4 gigachat3 apertus functionary_v31 functionary_v32
command_r dots gigachat35 inkling k2_horizon mirothinker muse_glimmer solar_open2
deepseek_v4 deepseek_v41 hy_v4 iquest_q1 llm-jp-harmony plamo3 beam
react action_json function_call tool_code tool_tags
""".split()  # noqa: SIM905 - far easier to read


def test_every_documented_format_is_there_under_its_name() -> None:
    assert registry.names()[: len(NAMES)] == NAMES
    for name in registry.names():
        assert registry.get(name).name == name
        assert registry.get(name) is registry.get(name)


def test_an_unknown_name_is_an_error_that_says_what_there_is() -> None:
    with pytest.raises(FormatError, match=r"hermess is not a format; did you mean hermes\? known: auto, json"):
        registry.get("hermess")


@pytest.mark.slow
@pytest.mark.parametrize("package", ["toolcall_middleware", "toolcall_middleware.exchange"])
def test_the_families_are_imported_when_a_format_is_asked_for(package: str) -> None:
    code = f"""
import sys, {package}
from toolcall_middleware.formats import registry
def loaded():
    rooms = ("families.", "syntax.", "family")
    heads = tuple(f"toolcall_middleware.formats.{{room}}" for room in rooms)
    return [name.rpartition(".")[2] for name in sys.modules if name.startswith(heads)]
assert not loaded(), loaded()
registry.get("hermes")
assert "qwen" in loaded()
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.slow
def test_the_command_lists_all_formats() -> None:
    command = [sys.executable, "-m", "toolcall_middleware", "formats", "--json"]
    out = subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout
    assert [row["name"] for row in json.loads(out)] == registry.names()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example as an installed package: its module and what an installer writes beside it."""
    (tmp_path / EXAMPLE.name).write_bytes(EXAMPLE.read_bytes())
    info = tmp_path / "guillemets-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guillemets\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.ENTRY_POINTS}]\n"
        "guillemets = custom_format:GUILLEMETS\n"
        "broken = custom_format:Nothing\n"
        "hermes = custom_format:GUILLEMETS\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._installed.cache_clear()
    yield
    sys.modules.pop("custom_format", None)
    registry._installed.cache_clear()
    registry.get.cache_clear()


@pytest.mark.usefixtures("installed")
def test_another_packages_format_is_found_and_cannot_replace_ours() -> None:
    assert registry.names()[-2:] == ["broken", "guillemets"]
    fmt = registry.get("guillemets")
    assert (fmt.name, fmt) == ("guillemets", sys.modules["custom_format"].GUILLEMETS)
    assert registry.for_model("guillemets", "Qwen/Qwen3-8B") is fmt
    assert type(registry.get("hermes")).__module__.startswith("toolcall_middleware.")
    with pytest.raises(FormatError, match=r"the format broken \(custom_format:Nothing\) cannot be loaded: .*Nothing"):
        registry.get("broken")


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 30


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("stream", [False, True])
async def test_another_packages_format_serves_a_whole_conversation(*, stream: bool) -> None:
    written = 'Let me see. <<call>> {"name": "weather", "arguments": {"city": "Oslo"}} <<end>>'
    model = ScriptedModel([written, "It rains in Oslo."])
    app = ToolCallMiddleware(model, settings=Settings(format="guillemets"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model") as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Rain?"}]
        first = await _ask(client, messages, stream=stream)
        (call,) = first.calls
        assert (call.name, call.arguments) == ("weather", '{"city": "Oslo"}')
        assert first.text.strip() == "Let me see."
        function = {"name": call.name, "arguments": call.arguments}
        calls = [{"id": call.id, "type": "function", "function": function}]
        messages += [
            {"role": "assistant", "content": first.text, "tool_calls": calls},
            {"role": "tool", "tool_call_id": call.id, "content": "rain <<end>>"},
        ]
        last = await _ask(client, messages, stream=stream)
    assert last.text == "It rains in Oslo."
    system, *rest = model.requests[1]["messages"]
    shown = 'A call looks like this: <<call>> {"name": "TOOL_NAME", "arguments": {"ARGUMENT": "VALUE"}} <<end>>'
    assert shown in system["content"]
    assert [message["role"] for message in rest] == ["user", "assistant", "user"]
    assert rest[1]["content"].split() == written.split()
    assert '<tool_result name="weather">\nrain <<end>>\n</tool_result>' in rest[2]["content"]


async def _ask(client: httpx.AsyncClient, messages: list[dict[str, Any]], *, stream: bool) -> Received:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "weather", "parameters": parameters}}
    body = {"model": "m", "messages": messages, "tools": [tool], "stream": stream}
    return received("chat", (await client.post("/v1/chat/completions", json=body)).content)


def test_every_declared_family_is_listed_once() -> None:
    modules = [importlib.import_module(f"{families.__name__}.{one.name}") for one in iter_modules(families.__path__)]
    declared = [value for module in modules for value in vars(module).values() if isinstance(value, Family)]
    unlisted = {prompted.BRIEF, prompted.PLAIN}
    assert sorted(family.name for family in markup.families()) == sorted({one.name for one in declared} - {"plain"})
    assert set(declared) == {*markup.families(), *unlisted}
    assert set(markup.families()) == {registry.get(name) for name in registry.names() if name != "auto"}


PRIVATE = """
from toolcall_middleware.formats.family import Family
from toolcall_middleware.formats.markup import Markup
from toolcall_middleware.formats.syntax.json import CALL, Json

ACME = Family(
    name="acme",
    about="ours",
    calls=Json(call=f"<acme>{CALL}</acme>"),
    markup=Markup(reasoning=(("<acme:think>", "</acme:think>"),), stops=("<acme:user>",)),
    prompt="{tools} {example}",
)
NUMBER = 5
"""


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of the operator's on the path."""
    (tmp_path / "acme_formats.py").write_text(PRIVATE)
    (tmp_path / "acme_broken.py").write_text("import acme_missing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("acme_formats", None)
    registry.get.cache_clear()
    markup._private.clear()
    markup.gathered.cache_clear()
    markup.turn_markers.cache_clear()


@pytest.mark.usefixtures("private")
def test_a_format_is_taken_from_a_module_of_the_operators() -> None:
    fmt = registry.of_settings(Settings(format="acme_formats:ACME"))
    assert fmt is not None
    assert fmt.name == "acme"
    assert registry.get("acme_formats:ACME") is fmt
    assert not {"acme", "acme_formats:ACME"} & set(registry.names())
    text = "<acme:think>hm</acme:think>Well. " + fmt.render_calls([ToolCall("f", '{"x": 1}')])
    events = read(fmt.parser(None, ParserOptions(parse_reasoning=False)), [text])
    assert [call.name for call in calls_in(events)] == ["f"]
    assert (thought_in(events), text_in(events)) == ("hm", "Well. ")


@pytest.mark.usefixtures("private")
def test_every_reader_learns_the_markup_of_a_format_of_the_operators() -> None:
    hermes = registry.get("hermes")
    text = hermes.render_calls([ToolCall("f", "{}")]) + "<acme:user>Thanks!"

    def stops() -> list[str]:
        events = read(hermes.parser(None, ParserOptions()), [text])
        return [event.marker for event in events if isinstance(event, Stop)]

    assert (stops(), escaping.neutralise("<acme>")) == ([], "<acme>")
    registry.get("acme_formats:ACME")
    assert (stops(), escaping.neutralise("<acme>")) == (["<acme:user>"], "<\\acme>")
    assert "<acme:user>" in FUNCTIONS.layout(markup.turn_markers()).tails


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("acme_none:F", "acme_none cannot be imported: No module named 'acme_none'"),
        ("acme_broken:F", "acme_broken cannot be imported: No module named 'acme_missing'"),
        ("acme_formats:NOTHING", "acme_formats has no NOTHING"),
        ("acme_formats:NUMBER", "it is of the type int and lacks render_tools, .*, parser, constraint"),
        ("acme_formats:", "a format of your own is given as package.module:FAMILY"),
        ("/etc/x.py:F", "a format of your own is given as package.module:FAMILY"),
        (".relative:F", "a format of your own is given as package.module:FAMILY"),
        ("a:b:c", "a format of your own is given as package.module:FAMILY"),
    ],
)
def test_a_place_without_a_format_is_an_error_that_says_why(place: str, fault: str) -> None:
    with pytest.raises(FormatError, match=f"format.*{re.escape(place)} is not a format[:;] {fault}"):
        registry.of_settings(Settings(format=place))


def test_auto_is_one_object_for_all_models_of_a_family() -> None:
    common = registry.get("auto")
    assert isinstance(common, Family)
    for models, prompt in ((("Qwen/Qwen3-8B", "qwen2.5:7b"), "hermes"), (("my-model", "", "x" * 100_000), "json")):
        first, *others = (registry.for_model("auto", model) for model in models)
        assert isinstance(first, Family)
        assert all(other is first for other in others)
        assert (first.name, first.prompt_name) == ("auto", prompt)
    assert registry.for_model("auto", "my-model") is common
    assert registry.for_model("json", "Qwen/Qwen3-8B") is registry.get("json")
    assert registry.for_model("hermes", "openai/gpt-oss-20b") is registry.get("hermes")


@pytest.mark.parametrize("follow", ["", "<"])
def test_families_with_one_marker_are_told_apart_by_what_follows(follow: str) -> None:
    one, other = shared("<x>", json_calls(close=("</x>",)), follow), shared("<x>", FUNCTIONS, "f")
    for both in ((one, other), (other, one)):
        merged = one_of(both)
        assert (merged.marker, merged.where, merged.consume) == ("<x>", one.where, True)
    with pytest.raises(FormatError, match="two families declare <x>: say what follows it"):
        one_of((one, opener("<x>", json_calls())))
    assert one_of((one,)) is one
