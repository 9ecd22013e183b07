from __future__ import annotations

import json
import random

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.values.json_reader import JsonReader

from .meter import PARSING, Meter
from .streams import cut_at, one_cut


def copy(pieces: list[str]) -> tuple[str, int, bool]:
    """What comes out of a value in these pieces, how much was read, and whether it was repaired."""
    reader = JsonReader()
    out: list[str] = []
    read = 0
    for piece in pieces:
        if reader.done or reader.stuck:
            break
        read += reader.feed(piece, 0, out)
    reader.close(out)
    assert reader.done
    return "".join(out), read, reader.repaired


def repaired(text: str) -> str:
    return copy([text])[0]


VERBATIM = [
    "{}",
    "[]",
    '  {"a" : 1.50e+3 , "b":[ ] , "c":{ } }',
    '{"b": 1, "a": 2, "b": 3}',
    '{\n  "a": [\n    1,\n    2\n  ]\n}',
    r'{"a": "\u00e9\/\"\\\b\f\n\r\t\ud83d\ude00"}',
    '{"a": "日本語🎉é\u2028\x7f"}',
    "[0, -0, -0.0, 1E5, 1e-5, 123456789012345678901234567890, 1e999]",
    "[true, false, null]",
    '"a string"',
    '{"": {"": [[], {}, [{}]]}}',
    '{"a,b": "c}d]e", "f:g": "\'"}',
    '{"a":"b"\n}',
    '{"quote": "\\"", "next": "\\\\"}',
]


@pytest.mark.parametrize("text", VERBATIM)
def test_valid_json_comes_out_as_it_was_written(text: str) -> None:
    assert copy([text]) == (text, len(text), False)
    assert copy(list(text)) == (text, len(text), False)


# What a model writes, and what comes out.
REPAIRS = {
    # commas
    '{"a": 1, }': '{"a": 1}',
    '{"a": [1, 2,],}': '{"a": [1, 2]}',
    "[1,,2]": "[1,2]",
    "[1 , , 2]": "[1 , 2]",
    "{,}": "{}",
    '{,"a":1}': '{"a":1}',
    "[,1]": "[1]",
    '{"a": 1 "b": 2}': '{"a": 1 ,"b": 2}',
    '{"a": "x" "b": [1 2 "c" "d"]}': '{"a": "x" ,"b": [1 ,2 ,"c" ,"d"]}',
    '[{"a": 1} {"b": [1] "c": 2}]': '[{"a": 1} ,{"b": [1] ,"c": 2}]',
    '{"a":"x"\n"b":1}': '{"a":"x"\n,"b":1}',
    # quotes
    "{'a': 'b'}": '{"a": "b"}',
    "{'a': 'it\\'s'}": '{"a": "it\'s"}',
    "{'a': 'it's'}": '{"a": "it\'s"}',
    "{'a': 'say \"hi\"'}": '{"a": "say \\"hi\\""}',
    "{'a': ''}": '{"a": ""}',
    '{"a": "He said "hi" to me"}': '{"a": "He said \\"hi\\" to me"}',
    '{"a": ""quoted" word"}': '{"a": "\\"quoted\\" word"}',
    '{"a": "5" tall"}': '{"a": "5\\" tall"}',
    # keys and words
    "{a: 1, b_c: 2, $d: 3}": '{"a": 1, "b_c": 2, "$d": 3}',
    "{1: 2}": '{"1": 2}',
    '{"city": New York, "n": 1}': '{"city": "New York", "n": 1}',
    "[a, b]": '["a", "b"]',
    '{"at": 15:30, "n": 1}': '{"at": "15:30", "n": 1}',
    "[7:05:00, 0:45]": '["7:05:00", "0:45"]',
    '{"a" = 1, "b" => 2}': '{"a" : 1, "b" : 2}',
    '{"a" 1}': '{"a" :1}',
    # literals
    '{"a": True, "b": False, "c": None}': '{"a": true, "b": false, "c": null}',
    "[TRUE, FALSE, NULL, nil, undefined]": "[true, false, null, null, null]",
    "[NaN, Infinity, -Infinity, nan, inf]": "[null, null, null, null, null]",
    # numbers
    "[.5, 1., +3, 0x1F, 1_000, 007, -.5]": "[0.5, 1, 3, 31, 1000, 7, -0.5]",
    "[0_0, 0_7, 00_7.5, 0_]": "[0, 7, 7.5, 0]",
    "[0b101, 0o17]": "[5, 15]",
    "[1.2.3, 12abc, 2024-01-01, -]": '["1.2.3", "12abc", "2024-01-01", "-"]',
    # inside strings
    '{"a": "one\ntwo\r\n\tthree\x00\x1b"}': '{"a": "one\\ntwo\\r\\n\\tthree\\u0000\\u001b"}',
    r'{"a": "C:\dir\x \d+ \. \u12"}': r'{"a": "C:\\dir\\x \\d+ \\. \\u12"}',
    '{"a": "one\\\ntwo"}': '{"a": "one\\ntwo"}',
    # comments
    '{"a": 1, // the first\n "b": 2}': '{"a": 1, \n "b": 2}',
    '{ // all\n "a": 1 // the last\n}': '{ \n "a": 1 \n}',
    '{"a": "x" // why\n, "b": "y"/* no */}': '{"a": "x" \n, "b": "y\\"/* no */}"}',
    '{"a": /* one */ "x" /* two */, /* three */ "b" : [ /**/ 1, /* * / */ 2]}': '{"a":  "x" ,  "b" : [  1,  2]}',
    '{"a": 1, # python\n# another\n"b": [2 # two\n, 3]}': '{"a": 1, \n\n"b": [2 \n, 3]}',
    '{"a": [1, // x\n]}': '{"a": [1]}',
    '{"a": 1 // if a < b, or\n, "b": 2}': '{"a": 1 \n, "b": 2}',
    '{"a": 1 // the end}': '{"a": 1 }',
    '{"a": 1 /* the end}': '{"a": 1 }',
    '{"a": //\n': '{"a": \nnull}',
    '{"a": 1 /': '{"a": 1 }',
    '{"a": "x" /': '{"a": "x" }',
    '{"a": /usr/bin, "b": #fff}': '{"a": "/usr/bin", "b": "#fff"}',
    "[/]": '["/"]',
    "[1, /x, #y]": '[1, "/x", "#y"]',
    '{"a": "say "x" / or"}': '{"a": "say \\"x\\" / or"}',
    "{/: 1}": '{"/": 1}',
    # triple quotes
    '{"a": """one "two"\nthree""", "b": 1}': '{"a": "one \\"two\\"\\nthree", "b": 1}',
    "{'a': '''it's \"x\"'''}": '{"a": "it\'s \\"x\\""}',
    '{"a": """"quoted" and "quoted""""}': '{"a": "\\"quoted\\" and \\"quoted\\""}',
    '["""""", """a\\tb\\d\\u00e9\\u1x\\"""" ]': '["", "a\\tb\\\\d\\u00e9\\\\u1x\\"" ]',
    '{"a": """, "b": """}': '{"a": "\\"", "b": "\\""}',
    '{"a": """x': '{"a": "x"}',
    '{"a": """x""': '{"a": "x\\"\\""}',
    '{"a": """x"""': '{"a": "x"}',
    '{"a": """x\\u00': '{"a": "x"}',
    '{"a": """': '{"a": ""}',
    '{"a": ""': '{"a": ""}',
    '["a""b"]': '["a","b"]',
    # missing ends
    '{"a": 1': '{"a": 1}',
    '{"a": "b': '{"a": "b"}',
    '{"a": [1, {"b": "c': '{"a": [1, {"b": "c"}]}',
    '{"a": tru': '{"a": true}',
    '{"a": nul': '{"a": null}',
    '{"a": 1,': '{"a": 1}',
    '{"a":': '{"a":null}',
    '{"a"': '{"a":null}',
    '{"a': '{"a":null}',
    '{"a": "b\\': '{"a": "b"}',
    '{"a": "b\\u00': '{"a": "b"}',
    '{"a": -': '{"a": "-"}',
    "{": "{}",
    "[": "[]",
    "": "null",
    "   ": "   null",
    # values and brackets
    '{"a":}': '{"a":null}',
    '{"a":, "b": 1}': '{"a":null, "b": 1}',
    '{"a", "b": 1}': '{"a":null, "b": 1}',
    '{"a":{"b":1]}': '{"a":{"b":1}}',
    '{"a":[1,2}': '{"a":[1,2]}',
    '[{"a":1]': '[{"a":1}]',
    '{"a":1]}': '{"a":1}',
}


@pytest.mark.parametrize("text", REPAIRS)
def test_broken_json_is_repaired(text: str) -> None:
    expected = REPAIRS[text]
    json.loads(expected)
    assert repaired(text) == expected
    assert copy([text])[2], "and it is said"
    assert copy(list(text))[0] == expected


def test_what_follows_the_value_is_left() -> None:
    assert copy(['{"a": 1}} x']) == ('{"a": 1}', 8, False)
    assert copy(['"b" c']) == ('"b"', 3, False)
    assert copy(["12 ,"]) == ("12", 2, False)
    assert copy(["[1]", "2"]) == ("[1]", 3, False)


@pytest.mark.parametrize(
    "text", ['{"a": 1</tool_call>', '{"a": 1, </tool_call>', '{"a":</x>', "{</x>", '{"a"</x>', "[1;"]
)
def test_a_character_that_may_be_a_closing_tag_is_left(text: str) -> None:
    reader = JsonReader()
    out: list[str] = []
    read = reader.feed(text, 0, out)
    assert reader.stuck
    assert text[read] in "<;"
    reader.close(out)
    json.loads("".join(out))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
containers = st.lists(values, max_size=5) | st.dictionaries(st.text(), values, max_size=5)
broken = st.lists(
    st.sampled_from(
        [*"{}[]\",:'\\<;=>\n\t.-+0xu_a1 e", "true", "None", '"a"', "'b'", '{"a":', "\\u12", "\\n", "//", "🎉"]
    )
    | st.text(max_size=2),
    max_size=14,
).map("".join)


@given(containers, st.sampled_from([None, 0, 2]), st.booleans(), st.randoms(use_true_random=False))
def test_any_valid_json_comes_out_as_it_was_written(
    value: object, indent: int | None, ascii_only: bool, rng: random.Random
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    cuts = sorted(rng.sample(range(len(text)), min(len(text), 3)))
    assert copy([text]) == (text, len(text), False)
    assert copy(cut_at(text, cuts)) == (text, len(text), False)


@pytest.mark.slow
@settings(max_examples=400)
@given(broken)
@example("[\x1f")
@example('{"a":"\\u0"')
@example("\xa0{")
def test_any_text_becomes_valid_json_however_it_is_cut(text: str) -> None:
    whole = copy([text])
    json.loads(whole[0])
    msgspec.json.decode(whole[0].encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    assert copy(list(text)) == whole
    for pieces in one_cut(text):
        assert copy(pieces) == whole


@pytest.mark.parametrize("text", [*REPAIRS, *VERBATIM])
def test_every_cut_gives_the_same(text: str) -> None:
    whole = copy([text])
    for at in range(len(text)):
        for to in range(at, len(text)):
            assert copy(cut_at(text, [at, to])) == whole


# What has left after each of these.
HOLDS = [
    ('{"a": "bcd', '{"a": "bcd'),
    ('{"a": "b\\', '{"a": "b'),  # an escape, until its last character
    ('{"a": "b\\u00e', '{"a": "b'),
    ('{"a": "b\\u00e9', '{"a": "b\\u00e9'),
    ('{"a": "b"', '{"a": "b'),  # a quote, until what follows tells that it ends the string
    ('{"a": "b" ,', '{"a": "b" '),  # a comma, until another value comes
    ('{"a": "b", "', '{"a": "b", "'),
    ('{"a": 12', '{"a": '),  # a number, until its end
    ('{"a": 12 ', '{"a": 12 '),
    ('{"a": tr', '{"a": '),
    ('{"a', '{"a'),
    ('{"a"', '{"a"'),
    ('{"a":', '{"a":'),
    ('{"a": [[', '{"a": [['),
    ('{"a": Paris in', '{"a": "Paris in'),
]


@pytest.mark.parametrize(("text", "expected"), HOLDS)
def test_holds_back_only_what_it_must(text: str, expected: str) -> None:
    reader = JsonReader()
    out: list[str] = []
    for char in text:
        assert reader.feed(char, 0, out) == 1
    assert "".join(out) == expected


# Cut off here, what has left with what was held is the beginning of valid JSON.
@given(containers, st.integers(0, 200), st.booleans())
@example({"a": 12}, 7, False)
@example({"a": [True, None]}, 9, False)
@example({"a": "b"}, 9, False)
def test_released_text_is_what_the_model_wrote(value: object, cut: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)[:cut]
    reader = JsonReader()
    out: list[str] = []
    reader.feed(text, 0, out)
    reader.release(out)
    assert text.startswith("".join(out))
    assert len(text) - len("".join(out).rstrip(", \n")) <= 2 or text.rstrip().endswith(",")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': 'b'", '{"a": "b"'),
        ('{"a": Tru', '{"a": '),
        ('{"a": .', '{"a": '),
        ('{"a": 1.', '{"a": 1.'),
        ('{"a": 1e', '{"a": 1e'),
        ('{"a": -', '{"a": -'),
        ('{"a": nul', '{"a": nul'),
        ('{"a": 1,', '{"a": 1'),
        ("{ab", "{"),
    ],
)
def test_released_text_begins_valid_json(text: str, expected: str) -> None:
    reader = JsonReader()
    out: list[str] = []
    reader.feed(text, 0, out)
    reader.release(out)
    assert "".join(out) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ("{'a' ", ""), ("[1,[", ",2],3]")]
)
def test_deep_nesting_needs_no_recursion(opening: str, closing: str) -> None:
    depth = 100_000
    text = opening * depth + "1" + closing * depth
    out, read, _ = copy([text])
    assert read == len(text)
    opened = depth * (opening.count("[") + opening.count("{"))
    assert out.count("{") + out.count("[") == out.count("}") + out.count("]") == opened
    assert copy([opening * depth])[0]


@pytest.mark.slow
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000 + "}" * 200_000,  # none closes anything: looking through all that is open each time is 4e10
        "{" + "[" * 200_000 + "}",
        "[" + '{"a":' * 100_000 + "]" * 100_000,
        ('{"a":[' * 100_000) + "}" * 100_000,
    ],
)
def test_wrong_brackets_by_the_thousand_are_repaired_in_linear_time(text: str) -> None:
    out = copy([text])[0]
    assert out.count("[") == out.count("]")
    assert out.count("{") == out.count("}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "abc ", "a\\n", '\\"', "\n", "\\u00", "\\ud83d\\ude00", "é🎉", '"x" ', "'", '", "', '", "b": "', "\\", "}",
        "<b>", '", ,', "\t \t", '"\n\n"', "\\u", '"   ',
    ],
)  # fmt: skip
def test_a_long_string_in_pieces_costs_linear_work(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(size: int) -> int:
        meter = Meter()
        with monkeypatch.context() as patch:
            meter.watch(patch, *PARSING)
            reader = JsonReader()
            out: list[str] = []
            text = '{"a": "' + unit * (size // len(unit)) + '"}'
            for at in range(0, len(text), 4):
                piece = meter.text(text[at : at + 4])
                read = reader.feed(piece, 0, out)
                if reader.done or reader.stuck or read < len(piece):
                    break
            reader.close(out)
            json.loads("".join(out))
        return meter.cost

    small, large = work(20_000), work(40_000)
    assert large <= 2.2 * small + 2_000
