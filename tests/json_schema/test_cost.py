"""No schema of a client is dear, whatever it counts to, refers to or is compared with.

Costs are measured in a process of its own, which may be killed, and against a loop of Python in the same process.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from toolcall_middleware.json_schema import rules
from toolcall_middleware.json_schema.pattern import translated
from toolcall_middleware.json_schema.validate_arguments import ArgumentChecker
from toolcall_middleware.model import Tool, ToolSet

from ..request.offers import error, function, schema

HEAD = """
import json, resource, sys, time
from typing import Any
from toolcall_middleware.json_schema.validate_arguments import ArgumentChecker, checker_for
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.request.parse import read_request
from toolcall_middleware.settings import Settings

def request(*schemas):
    tools = [{"type": "function", "function": {"name": f"f{n}", "parameters": one}} for n, one in enumerate(schemas)]
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools}).encode()

def admitted(*schemas):
    return read_request(request(*schemas), Settings()).tools

def taken(work):
    before = time.process_time()
    work()
    return time.process_time() - before

def loop():
    for _ in range(1_000_000):
        pass

def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def properties(**inner):
    return {"type": "object", "properties": inner}

def twice(depth):
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {**parts, f"d{depth}": {}}

harmless = ArgumentChecker(admitted(properties(a={"type": "string", "pattern": "^x"})))
harmless.faults("f0", '{"a": "x"}')  # all is loaded
unit = min(taken(loop) for _ in range(3))
first = megabytes()
"""


def measured(program: str) -> list[float]:
    """What `program` prints at its end: numbers. It has a minute and 2 GB."""
    limits = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
    done = subprocess.run(
        [sys.executable, "-c", limits + HEAD + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [float(number) for number in done.stdout.split()]


@pytest.mark.parametrize(
    "pattern",
    [
        "x{1000000000}", "(x{1000}){1500}", "(?:(?:(?:a{20}){20}){20}){20}", "[ab]{20000}c", "x{9000,}", r"\p{L}{20000}",
        "(?:x{1000}[)]){1000}", "(?=x{100}){100}", "(?:x{100}|y){100}", r"(?:\u{41}{200}){200}", "a" * 90 + "(?:bc){3000}",
    ],
)  # fmt: skip
def test_counts_that_make_a_large_pattern_are_refused_with_the_place(pattern: str) -> None:
    caught = error(
        function("f", parameters={"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    )
    assert caught.code == "invalid_tool_schema"
    assert caught.param == "tools[0].function.parameters.properties.a.pattern"
    assert "counted repeats" in caught.message
    assert "use smaller counts" in caught.message
    assert len(caught.message) < 500
    names = error(function("f", parameters={"type": "object", "patternProperties": {pattern: {}}}))
    assert names.param == "tools[0].function.parameters.patternProperties"


@pytest.mark.parametrize(
    "pattern",
    [
        "^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$", r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z$",
        "^[a-f0-9]{64}$", "^.{1,100000}$", "^(?:[A-Za-z0-9+/]{4})*={0,2}$", r"\p{L}{100}", "^[^/]{1,255}(?:/[^/]{1,255}){0,40}$",
    ],
)  # fmt: skip
def test_counts_that_people_write_are_taken(pattern: str) -> None:
    schema({"type": "object", "properties": {"a": {"pattern": pattern}}})


def test_the_patterns_of_a_request_share_what_they_may_become() -> None:
    tools = [function(f"f{n}", parameters={"properties": {"a": {"pattern": f"{n}x{{4000}}"}}}) for n in range(6)]
    for tool in tools:
        schema(tool["function"]["parameters"])
    caught = error(*tools)
    assert caught.param == "tools[4].function.parameters.properties.a.pattern"
    assert "20000" in caught.message


@pytest.mark.slow
def test_a_pattern_is_compiled_for_what_it_was_counted_to_be() -> None:
    patterns = [
        "x{4900}",
        "(?:x{70}y){65}",
        r"\p{L}{4900}",
        "[^a]{4900}",
        "(?i:k{4900})",
        ".{1000}" * 4,
        "(?=x{70}){65}",
        "(a|b){1200}",
    ]
    compiled, unit, grown = measured(f"""
        from toolcall_middleware.json_schema.pattern import matcher, pattern_fault
        patterns = {patterns!r}
        assert all(pattern_fault(one)[0] is None for one in patterns)
        assert all(pattern_fault(one)[1] > 3900 for one in patterns)
        print(max(taken(lambda: matcher(one)) for one in patterns), unit, megabytes() - first)
    """)
    assert compiled < 3 * unit
    assert grown < 40


@pytest.mark.slow
def test_what_was_compiled_is_not_kept_for_ever() -> None:
    held, bound, grown = measured("""
        from toolcall_middleware.json_schema import pattern, validate_arguments
        for n in range(200):
            one = properties(a={"type": "string", "pattern": f"{n}(?:x{{2000}}|y)"}, b={"pattern": f"[ab]{{2000}}{n}"})
            raw = request(one)
            offered = read_request(raw, Settings())
            checker_for(raw, offered.tools).faults("f0", '{"a": "x", "b": "y"}')
        print(pattern._COMPILED._size, pattern._COMPILED._max_size, megabytes() - first)
    """)
    assert held <= bound
    assert grown < 80


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        "[ab]{4000}c",
        "(?:[ab]{60}){60}c",
        "[a-z]{2,}[0-9]",
        r"(a|ab)*\s{50}",
        "^(a|a?)+$",
        r".\w\w[^c]+(a|b)\p{L}c",
        "[ab]*[0-9]{50}",
    ],
)
@pytest.mark.parametrize("length", [30_000, 64_000, 5_000_000])
def test_no_pattern_holds_a_long_argument(pattern: str, length: int) -> None:
    spent, unit, faults = measured(f"""
        checker = ArgumentChecker(admitted(properties(a={{"type": "string", "pattern": {pattern!r}}})))
        checker.faults("f0", '{{"a": "x"}}')
        text = json.dumps({{"a": "ab" * ({length} // 2)}})
        decoded = taken(lambda: json.loads(text))
        print(taken(lambda: checker.faults("f0", text)) - decoded, unit, len(checker.faults("f0", text)))
    """)
    assert spent < 6 * unit
    assert faults == 1


@pytest.mark.slow
def test_no_check_runs_what_cannot_be_stopped() -> None:
    assert measured('print(int("jsonschema_rs" in sys.modules))') == [0]


EITHER = '{"type": "object", "$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [r]} for r in "yz"]}}}'
HOSTILE: dict[str, tuple[str, str]] = {
    "a pattern": ('properties(a={"pattern": "^(a|a?)+$"})', '{"a": "a" * 40 + "!"}'),
    "an inner $schema": (
        'properties(a={"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a|a?)+$"})',
        '{"a": "a" * 40 + "!"}',
    ),
    "the root again": (
        '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"n": {"$ref": "#"}, "a": {"pattern": "^(a|a?)+$"}}}',
        '{"n": {"a": "a" * 40 + "!"}}',
    ),
    "names and patterns": (
        '{"type": "object", "patternProperties": {f"^(a|b)+{n}x": {} for n in range(500)}}',
        'dict.fromkeys(["ab" * 9 + str(n) for n in range(9000)], 1)',
    ),
    "names and patterns beside others": (
        '{"type": "object", "patternProperties": {f"^(a|b)+{n}x": {} for n in range(500)}, "additionalProperties": False}',
        'dict.fromkeys(["ab" * 9 + str(n) for n in range(9000)], 1)',
    ),
    "names that nothing speaks of": (
        '{"type": "object", "unevaluatedProperties": False, "patternProperties": {f"^(a|b)+{n}x": {} for n in range(500)}}',
        'dict.fromkeys(["ab" * 9 + str(n) for n in range(9000)], 1)',
    ),
    "parts of parts": (
        '{"unevaluatedProperties": False, "type": "object", "$ref": "#/$defs/d0", "$defs": twice(40)}',
        '{"a": 1}',
    ),
    "many items": ('properties(a={"items": {}, "contains": {}})', '{"a": [1] * 19_000}'),
    "many items of one kind": ('properties(a={"items": {"not": {"enum": [["x"]]}}})', '{"a": [["y"]] * 9_000}'),
    "unique items": ('properties(a={"uniqueItems": True})', '{"a": [[n] for n in range(9_000)]}'),
    "alternatives": (EITHER, 'eval("{\\"a\\":" * 18 + "{}" + "}" * 18)'),
    "alternatives that are deep": (EITHER, 'eval("{\\"a\\":" * 80 + "{}" + "}" * 80)'),
    "many items beside a large enum": (
        'properties(a={"items": {"enum": [[str(n)] for n in range(6_000)]}})', '{"a": [["no"]] * 5000}'
    ),
    "items that alternatives speak of": (
        'properties(a={"anyOf": [{"prefixItems": [{"type": "integer"}]}] * 50, "unevaluatedItems": False})', '{"a": [1] * 15_000}'
    ),
    "names that alternatives speak of": (
        '{"type": "object", "anyOf": [properties(x={})] * 500, "unevaluatedProperties": False}',
        "dict.fromkeys(map(str, range(5000)), 1)",
    ),
    "long names": ('{"type": "object", "propertyNames": {"pattern": "[a-z]{2,}[0-9]"}}', '{"ab" * 15_000: 1}'),
    "a large enum": ('properties(a={"enum": list(range(15_000))})', '{"a": 0.5}'),
    "large texts in messages": ('properties(a={"anyOf": [{"const": n} for n in range(900)]})', '{"a": "x" * 5_000_000}'),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_schema_holds_a_check(name: str) -> None:
    parameters, arguments = HOSTILE[name]
    spent, unit, grown = measured(f"""
        checker = ArgumentChecker(admitted({parameters}))
        checker.faults("f0", "{{}}")
        text = json.dumps({arguments})
        decoded = taken(lambda: json.loads(text))
        before = megabytes()
        print(taken(lambda: checker.faults("f0", text)) - decoded, unit, megabytes() - before)
    """)
    assert spent < 6 * unit
    assert grown < 200


def test_a_part_is_looked_at_once_for_what_it_speaks_of(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    own_properties = rules._Look._own_properties

    def counted(self: Any, part: dict[str, Any], besides: str) -> None:
        looked.append(id(part))
        own_properties(self, part, besides)

    monkeypatch.setattr(rules._Look, "_own_properties", counted)
    parts: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(6)}
    root = {
        "type": "object",
        "unevaluatedProperties": False,
        "$ref": "#/$defs/d0",
        "$defs": {**parts, "d6": {"properties": {"a": {}}}},
    }
    checker = ArgumentChecker(ToolSet.of([Tool("f", parameters=root)]))
    assert checker.faults("f", '{"a": 1}') == []
    assert len(looked) == len(set(looked))


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"type": "strin"}, ".type"),
        ({"type": "object", "properties": {"a": {"anyOf": [{}, {"items": 5}]}}}, ".properties.a.anyOf[1].items"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}}}, ".properties.a.$ref"),
        ({"type": "object", "$defs": {"A": {"$ref": "#/$defs/A"}}}, ".$defs.A"),
        ({"properties": {"a": {"$id": "http://["}}}, ".properties.a.$id"),
        ({"items": {}}, ""),
    ],
)
def test_the_error_leads_to_the_place(parameters: dict[str, Any], place: str) -> None:
    assert error(function("f", parameters=parameters)).param == f"tools[0].function.parameters{place}"


@pytest.mark.parametrize("keyword", ["extends", "disallow", "required", "divisibleBy"])
def test_draft_3_is_refused(keyword: str) -> None:
    caught = error(
        function(parameters={"$schema": "http://json-schema.org/draft-03/schema#", "type": "object", keyword: {}})
    )
    assert caught.param == "tools[0].function.parameters.$schema"
    assert "draft 4 or later" in caught.message


def test_a_schema_that_nobody_admitted_is_a_fault_and_no_crash() -> None:
    checker = ArgumentChecker(ToolSet.of([Tool("f", parameters={"properties": {"a": {"$ref": "#/$defs/none"}}})]))
    assert checker.faults("f", '{"a": 1}') == ["(root): cannot be checked: a reference of the schema leads nowhere"]


def test_what_is_not_known_is_not_run() -> None:
    for text in (
        "(?x)a {9}",
        "(?R)",
        "(?1)",
        r"\L<names>",
        "(?|a|b)",
        "(?V1)a",
        "(?(1)a|b)",
        "(?#x)",
        "(",
        ")",
        "(?P>a)",
    ):
        assert translated(text) is None
    fuzzy = translated("(?:ab){e<=3}")
    assert fuzzy is not None
    assert fuzzy.text == r"(?:ab)\{e<=3\}"
