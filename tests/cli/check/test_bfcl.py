"""`check --bfcl`: questions in BFCL's form are asked, and judged as its check of syntax trees judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fakes import serve
from toolcall_middleware.cli import main
from toolcall_middleware.cli.check.bfcl import read_questions
from toolcall_middleware.cli.command import UsageError
from toolcall_middleware.model import ToolCall

from .engines import Engine
from .test_command import run
from .test_report import only

PARAMETERS: dict[str, Any] = {
    "type": "dict",
    "required": ["city"],
    "properties": {
        "city": {"type": "string", "description": "A city."},
        "days": {"type": "integer"},
        "least": {"type": "float"},
        "metric": {"type": "boolean"},
        "hours": {"type": "array", "items": {"type": "integer"}},
        "names": {"type": "tuple", "items": {"type": "string"}},
        "place": {"type": "dict", "properties": {"lat": {"type": "float"}, "name": {"type": "string"}}},
        "stops": {"type": "array", "items": {"type": "dict", "properties": {"name": {"type": "string"}}}},
        "anything": {"type": "any"},
    },
}
FUNCTION = {"name": "weather.forecast", "description": "A forecast.", "parameters": PARAMETERS}


def question(name: str, *, functions: list[Any] | None = None, text: str = "Rain in Oslo?") -> dict[str, Any]:
    asked = [[{"role": "user", "content": text}]]
    return {"id": name, "question": asked, "function": functions or [FUNCTION]}


def write(
    folder: Path, lines: list[dict[str, Any]], truth: dict[str, Any] | None = None, name: str = "BFCL_v4_x.json"
) -> Path:
    """The file of questions, and its answers where BFCL keeps them."""
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    if truth is not None:
        (folder / "possible_answer").mkdir(exist_ok=True)
        answers = [{"id": key, "ground_truth": value} for key, value in truth.items()]
        (folder / "possible_answer" / name).write_text("\n".join(map(json.dumps, answers)), "utf-8")
    return path


def fault(folder: Path, possible: list[dict[str, Any]], *calls: tuple[str, dict[str, Any]]) -> str | None:
    path = write(folder, [question("simple_0")], {"simple_0": possible})
    (asked,) = read_questions(path, None, 5).questions
    fault, right = asked.judge([ToolCall(name, json.dumps(arguments)) for name, arguments in calls])
    assert right is (fault is None)
    return fault


CALL = "weather_forecast"


@pytest.mark.parametrize(
    ("possible", "given", "expected"),
    [
        # Strings: without case, blanks and some punctuation; ' is ".
        ({"city": ["New York, NY"]}, {"city": "new york ny"}, None),
        ({"city": ["Land's End"]}, {"city": 'land"s end'}, None),
        ({"city": ["Oslo"]}, {"city": "Bergen"}, "weather_forecast: city is not one of the possible values"),
        ({"city": ["Oslo"]}, {}, "weather_forecast: no city"),
        # Optional ones may be left out only where "" is possible.
        ({"city": ["Oslo"], "days": [3, ""]}, {"city": "Oslo"}, None),
        ({"city": ["Oslo"], "days": [3]}, {"city": "Oslo"}, "weather_forecast: no days"),
        ({"city": ["Oslo"]}, {"city": "Oslo", "days": 3}, "weather_forecast: an argument too many"),
        ({"city": ["Oslo"]}, {"city": "Oslo", "unknown": 3}, "weather_forecast: an argument too many"),
        # Types: an integer is a float, nothing else is something else.
        ({"city": ["Oslo"], "days": [3]}, {"city": "Oslo", "days": 3}, None),
        ({"city": ["Oslo"], "days": [3]}, {"city": "Oslo", "days": 3.0}, "weather_forecast: days"),
        ({"city": ["Oslo"], "days": [3]}, {"city": "Oslo", "days": "3"}, "weather_forecast: days"),
        ({"city": ["Oslo"], "days": [1]}, {"city": "Oslo", "days": True}, "weather_forecast: days"),
        ({"city": ["Oslo"], "least": [5.0]}, {"city": "Oslo", "least": 5}, None),
        ({"city": ["Oslo"], "least": [5]}, {"city": "Oslo", "least": 5}, None),
        ({"city": ["Oslo"], "least": [5]}, {"city": "Oslo", "least": 10**400}, "weather_forecast: least"),
        ({"city": ["Oslo"], "metric": [True]}, {"city": "Oslo", "metric": True}, None),
        ({"city": ["Oslo"], "metric": [True]}, {"city": "Oslo", "metric": 1}, "weather_forecast: metric"),
        # A variable's name where a value was meant.
        ({"city": ["Oslo"], "days": ["n_days"]}, {"city": "Oslo", "days": "n_days"}, None),
        ({"city": ["Oslo"], "days": ["n_days"]}, {"city": "Oslo", "days": "N_DAYS"}, "weather_forecast: days"),
        # Lists keep their order; their strings are compared as strings are.
        ({"city": ["Oslo"], "hours": [[6, 12], [12, 6]]}, {"city": "Oslo", "hours": [12, 6]}, None),
        ({"city": ["Oslo"], "hours": [[6, 12]]}, {"city": "Oslo", "hours": [12, 6]}, "weather_forecast: hours"),
        ({"city": ["Oslo"], "hours": [[6]]}, {"city": "Oslo", "hours": ["6"]}, "weather_forecast: hours"),
        ({"city": ["Oslo"], "names": [["A b"]]}, {"city": "Oslo", "names": ["ab"]}, None),
        # Objects: each key has its possible values.
        ({"city": ["Oslo"], "place": [{"lat": [1.5], "name": ["X", ""]}]}, {"city": "Oslo", "place": {"lat": 1.5}},
         None),
        ({"city": ["Oslo"], "place": [{"lat": [1.5]}]}, {"city": "Oslo", "place": {}}, "weather_forecast: place"),
        # A possible value that is in no list counts as a list of one.
        ({"city": ["Oslo"], "place": [{"lat": 1.5, "name": "X"}]},
         {"city": "Oslo", "place": {"lat": 1.5, "name": "x"}}, None),
        ({"city": ["Oslo"], "place": [{"lat": 1.5, "name": "X"}]}, {"city": "Oslo", "place": {"name": "X"}},
         "weather_forecast: place"),
        ({"city": ["Oslo"], "stops": [[{"name": None}]]}, {"city": "Oslo", "stops": [{}]}, "weather_forecast: stops"),
        ({"city": ["Oslo"], "place": [{"lat": [1.5]}]}, {"city": "Oslo", "place": {"lat": 1.5, "z": 1}},
         "weather_forecast: place"),
        ({"city": ["Oslo"], "stops": [[{"name": ["A"]}, {"name": ["B"]}]]},
         {"city": "Oslo", "stops": [{"name": "a"}, {"name": "b"}]}, None),
        ({"city": ["Oslo"], "stops": [[{"name": ["A"]}]]}, {"city": "Oslo", "stops": []}, "weather_forecast: stops"),
        ({"city": ["Oslo"], "stops": [[{"name": ["A"]}]]}, {"city": "Oslo", "stops": [7]}, "weather_forecast: stops"),
        ({"city": ["Oslo"], "anything": ["x"]}, {"city": "Oslo", "anything": "X"}, None),
    ],
)  # fmt: skip
def test_a_call_is_judged_by_its_arguments(
    tmp_path: Path, possible: dict[str, Any], given: dict[str, Any], expected: str | None
) -> None:
    found = fault(tmp_path, [{"weather.forecast": possible}], (CALL, given))
    assert found == expected or (expected is not None and found is not None and found.startswith(expected))


def test_parallel_calls_come_in_any_order_and_all(tmp_path: Path) -> None:
    possible = [{"weather.forecast": {"city": [city]}} for city in ("Oslo", "Rome")]
    oslo, rome = (CALL, {"city": "Oslo"}), (CALL, {"city": "Rome"})
    assert fault(tmp_path, possible, rome, oslo) is None
    assert fault(tmp_path, possible, rome) == "1 calls, not 2"
    assert fault(tmp_path, possible, rome, rome) == "weather_forecast: city is not one of the possible values"
    assert fault(tmp_path, possible) == "0 calls, not 2"


def test_another_function_is_wrong_and_so_are_arguments_that_are_no_object(tmp_path: Path) -> None:
    possible = [{"weather.forecast": {"city": ["Oslo"]}}]
    assert fault(tmp_path, possible, ("other", {"city": "Oslo"})) == "another function"
    path = write(tmp_path, [question("simple_0")], {"simple_0": possible})
    (asked,) = read_questions(path, None, 5).questions
    for arguments in ("[]", "{", "[" * 100_000):
        assert asked.judge([ToolCall(CALL, arguments)])[0] == "weather_forecast: its arguments are no object"


def test_relevance_is_whether_a_call_comes_at_all(tmp_path: Path) -> None:
    path = write(tmp_path, [question("live_irrelevance_0"), question("live_relevance_0")])
    none, some = read_questions(path, None, 5).questions
    call = ToolCall("anything", "{}")
    assert (none.judge([])[1], none.judge([call])[1]) == (True, False)
    assert (some.judge([])[1], some.judge([call])[1]) == (False, True)


def test_functions_are_offered_as_json_schema(tmp_path: Path) -> None:
    path = write(tmp_path, [question("simple_0")], {"simple_0": [{"weather.forecast": {"city": ["x"]}}]})
    (asked,) = read_questions(path, None, 5).questions
    function = asked.tools[0]["function"]
    assert function["name"] == "weather_forecast"
    assert function["parameters"]["type"] == "object"
    assert function["parameters"]["required"] == ["city"]
    assert function["parameters"]["properties"]["least"] == {"type": "number"}
    assert function["parameters"]["properties"]["names"] == {"type": "array", "items": {"type": "string"}}
    assert function["parameters"]["properties"]["stops"]["items"]["type"] == "object"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": "multi_turn_0", "question": [[{"role": "user", "content": "a"}]], "involved_classes": []}, "function"),
        ({**question("simple_0"), "question": [[], []]}, "2 turns"),
        (question("simple_java_0", functions=[{"name": "f", "parameters": {"type": "ArrayList"}}]), "ArrayList"),
        (question("simple_9"), "no possible answers"),
        ({"question": []}, "no object with an id"),
        (question("simple_0", functions=[{"name": "g", "parameters": {"type": "dict"}}]), "not offered"),
        (question("simple_0", functions=[7]), "cannot be asked"),
    ],
)
def test_what_cannot_be_asked_is_told_with_its_line(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    path = write(tmp_path, [line], {"simple_0": [{"weather.forecast": {"city": ["Oslo"]}}]})
    with pytest.raises(UsageError, match=r"line 1.*" + message):
        read_questions(path, None, 5)


@pytest.mark.parametrize("text", ["", "\n\n", "{", "[1]\n", '"x"\n', "[" * 100_000, "\u00e4".encode("latin-1")])
def test_a_file_that_is_none_is_one_line(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "BFCL.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=r"BFCL\.json"):
        read_questions(path, None, 5)


def test_answers_may_lie_elsewhere_and_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, [question("simple_0")])
    with pytest.raises(UsageError, match="--bfcl-answers FILE"):
        read_questions(path, None, 5)
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"id": "simple_0", "ground_truth": [{"weather.forecast": {"city": ["x"]}}]}), "utf-8")
    assert [one.label for one in read_questions(path, answers, 5).questions] == ["simple_0"]


class Forecaster(Engine):
    """Calls by prompt, for the city that the question ends with; knows no tools and constrains nothing."""

    def text(self, body: dict[str, Any]) -> str:
        prompt = " ".join(str(message.get("content")) for message in body["messages"])
        if "weather_forecast" not in prompt:
            return super().text(body)
        city = prompt.rstrip("?").rpartition(" ")[2]
        return json.dumps({"tool_calls": [{"name": CALL, "arguments": {"city": city}}]})


def test_a_slice_is_asked_and_published_without_its_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        question(f"simple_{number}", text=f"Rain in {city}?") for number, city in enumerate(("Oslo", "Rome", "Bonn"))
    ]
    truth = {
        f"simple_{number}": [{"weather.forecast": {"city": [city]}}] for number, city in enumerate(("Oslo", "Bern"))
    }
    path = write(tmp_path, lines, truth)
    engine = Forecaster()
    with serve(engine) as url:
        code, out, _ = run(
            capsys, "--upstream", url, "--bfcl", str(path), "--bfcl-limit", "2", "--format", "json", "--report",
            str(tmp_path / "out"), "--model", "m",
        )  # fmt: skip
    assert code == 0
    assert "Right calls of 2 prompts of BFCL, BFCL_v4_x.json" in out
    (prompt,) = [one for one in only(tmp_path / "out")["calls"] if one["mode"] == "prompt"]
    assert (prompt["asked"], prompt["right"], prompt["wrong"], prompt["tool_choice"]) == (2, 1, 1, "auto")
    assert prompt["faults"] == ["simple_1 weather_forecast: city is not one of the possible values"]
    published = "".join(file.read_text("utf-8") for file in (tmp_path / "out").iterdir())
    assert "Rain in" not in published
    assert "Rome" not in published


def test_a_mistake_in_the_file_is_told_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Engine()
    with serve(engine) as url:
        assert main(["check", "--upstream", url, "--bfcl", str(tmp_path / "none.json")]) == 2
    assert "none.json: No such file" in capsys.readouterr().err
    assert not engine.requests
