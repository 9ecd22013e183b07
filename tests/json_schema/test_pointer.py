"""A reference leads where the library `referencing` says in a document without addresses, and never out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from toolcall_middleware.json_schema import pointer, rules
from toolcall_middleware.json_schema.pointer import OutOfDocument, Scope, Unresolved
from toolcall_middleware.json_schema.validate_arguments import ArgumentChecker
from toolcall_middleware.json_schema.walk import ANY_DRAFT, deeper, walk
from toolcall_middleware.lru_cache import LRUCache
from toolcall_middleware.model import Tool, ToolSet

DIALECTS: list[str | None] = [
    None,
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
]
KEYS = ["Id", "Id<string>", "a/b", "a~b", "~1", "%", "%25", "é", "🎉", "", " ", "0", "01", "#", "items", "$defs"]
NAMING = ("$anchor", "$dynamicAnchor")
NAMES = ["one", "two", "three", "old"]
# None in a folder of its own: referencing joins some of those to themselves, to dir/dir/inner.
ADDRESSES = ["https://x.y/s", "inner", "/dir/inner", "/top", "urn:a:b", "?q", "//host/x", "other#"]


def encoded(steps: tuple[str, ...], *, thorough: bool) -> str:
    """A pointer as writers of schemas encode it: all that a URI does not take, or hardly anything."""
    tokens = [step.replace("~", "~0").replace("/", "~1") for step in steps]
    return "#" + "".join("/" + (quote(token, safe="~") if thorough else token.replace("%", "%25")) for token in tokens)


def schema(rng: Random, addresses: list[str], depth: int = 0) -> dict[str, Any]:
    """A schema with names and addresses, and with places for references."""
    made: dict[str, Any] = {}
    if rng.random() < 0.5:
        made["$ref"] = "#"
    if addresses and rng.random() < 0.2:
        made[rng.choice(["$id", "$id", "id"])] = rng.choice(addresses)
    if rng.random() < 0.3:
        made[rng.choice(["$anchor", "$anchor", "$dynamicAnchor"])] = rng.choice(NAMES)
    if depth < 4:
        for keyword in ("$defs", "definitions", "properties", "x-unknown"):
            if rng.random() < 0.3:
                names = rng.sample(KEYS, rng.randint(1, 2))
                # Behind `items`, referencing takes what an unknown keyword holds for schemas.
                inside = addresses if keyword in ANY_DRAFT else []
                made[keyword] = {name: schema(rng, inside, depth + 1) for name in names}
        if rng.random() < 0.3:
            made["anyOf"] = [schema(rng, addresses, depth + 1), {"not": {}}]
        if rng.random() < 0.2:
            made["items"] = schema(rng, addresses, depth + 1)
    return made


def places(at: Any, steps: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value inside a document with the way to it."""
    yield steps, at
    for step, value in at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ():
        yield from places(value, (*steps, str(step)))


def document(
    seed: int, dialects: Sequence[str | None] = DIALECTS, addresses: Sequence[str] = ADDRESSES
) -> dict[str, Any]:
    """A document whose references lead to what it holds, by pointer, name or address, and sometimes to nothing."""
    rng = Random(seed)
    dialect = rng.choice(dialects)
    # Since 2019 the metaschema refuses an address that is a fragment.
    root = schema(rng, [*addresses, "#old"] if dialect and "draft-0" in dialect else list(addresses))
    known = list(places(root))
    resources = [value for _, value in known if isinstance(value, dict) and "$id" in value]
    inside = [steps for resource in resources for steps, _ in places(resource)]
    for _, value in known:
        if isinstance(value, dict) and value.get("$ref") == "#":
            steps = rng.choice(inside) if inside and rng.random() < 0.5 else rng.choice(known)[0]
            pointer_there = encoded(steps, thorough=rng.random() < 0.5)
            address = rng.choice(ADDRESSES)
            value["$ref"] = rng.choice(
                [
                    pointer_there,
                    pointer_there,
                    f"#{rng.choice(NAMES)}",
                    address,
                    address.rstrip("#") + pointer_there,
                    "#",
                    "#/",
                    pointer_there + "/no",
                ]
            )
    return {**root, "$schema": dialect} if dialect else root


def has_unique_names(root: dict[str, Any]) -> bool:
    """Whether no two schemas have one name: the drafts leave open which of them is meant."""
    names = [schema[keyword] for schema, _, _ in walk(root, 0, deeper) for keyword in NAMING if keyword in schema]
    return len(set(names)) == len(names)


def their_target(resolver: Any, reference: str) -> Any:
    try:
        found = resolver.lookup(reference)
    except (Unresolvable, ValueError, TypeError):  # an index that is no number, a step into a boolean
        return None
    # Letters of a string, and a list from behind, are places to Python only.
    return found if isinstance(found.contents, dict | list | bool) else None


def compare(scope: Scope, resolver: Any, reference: str) -> None:
    """Follow `reference` with both."""
    ours, theirs = scope.find(reference), their_target(resolver, reference)
    found = ours if isinstance(ours, dict | list | bool) else None
    assert (found is None) == (theirs is None), reference
    assert theirs is None or found is theirs.contents, reference


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32).map(lambda seed: document(seed, DIALECTS[:2], [])).filter(has_unique_names))
def test_a_reference_leads_where_referencing_says(root: dict[str, Any]) -> None:
    resource: Any = Resource.from_contents(root, default_specification=DRAFT202012)
    resolver = Registry().with_resource("", resource).resolver("")
    for schema, _, _ in walk(root, 0, deeper):
        if isinstance(schema.get("$ref"), str):
            compare(Scope(root), resolver, schema["$ref"])


def test_the_comparison_sees_a_wrong_target() -> None:
    root = {"$defs": {"A%41": {"type": "string"}, "AA": {"type": "null"}}}
    resource: Any = DRAFT202012.create_resource(root)
    resolver = Registry().with_resource("", resource).resolver("")
    compare(Scope(root), resolver, "#/$defs/A%41")
    wrong = Scope({"$defs": {"AA": {}}})
    with pytest.raises(AssertionError):
        compare(wrong, resolver, "#/$defs/A%41")


ROOT: dict[str, Any] = {
    "$defs": {
        "Id<string>": {"type": "string"},
        "a/b~c": {"$anchor": "here"},
        "": {"enum": ["empty"]},
        "I": {"$id": "inner", "$defs": {"X": {"const": 1}}, "items": {"$ref": "#/$defs/X"}, "not": {"$anchor": "deep"}},
        "list": {"prefixItems": [{"const": 0}, True]},
    },
    "required": ["a"],
}


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("#", ROOT),
        ("", ROOT),
        ("#/$defs/Id%3Cstring%3E", {"type": "string"}),
        ("#/%24defs/Id<string>", {"type": "string"}),
        ("#/$defs/a~1b~0c", {"$anchor": "here"}),
        ("#/$defs/a%7E1b%7e0c", {"$anchor": "here"}),
        ("#here", {"$anchor": "here"}),
        ("#/$defs/", {"enum": ["empty"]}),
        ("#/$defs/list/prefixItems/0", {"const": 0}),
        ("#/$defs/list/prefixItems/1", True),
        ("inner", ROOT["$defs"]["I"]),
        ("inner#/$defs/X", {"const": 1}),
        ("#deep", {"$anchor": "deep"}),
        ("#/$defs/I/items", {"$ref": "#/$defs/X"}),
    ],
)
def test_where_references_lead(reference: str, target: Any) -> None:
    assert Scope(ROOT).resolve(reference) == target


def test_a_pointer_without_an_address_begins_at_the_root() -> None:
    assert Scope(ROOT).find("#/$defs/X") is None
    assert Scope({**ROOT, "$id": "https://x.y/s"}).find("https://x.y/s#/required/0") == "a"


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/None", "#nowhere", "#/required/1", "#/required/-1", "#/required/00", "#/required/a", "#%2F$defs/I",
     "#/$defs/list/prefixItems/99999999999999999999", "#/required/0/0"],
)  # fmt: skip
def test_references_to_nothing(reference: str) -> None:
    with pytest.raises(Unresolved, match="refers to nothing"):
        Scope(ROOT).resolve(reference)
    assert Scope(ROOT).find(reference) is None


@pytest.mark.parametrize(
    "reference",
    [
        "http://x/",
        "other",
        "inner/x",
        "//h/a",
        "file:///etc/passwd",
        "http://[",
        "x" * 3000,
        "http://json-schema.org/draft-07/schema#",
    ],
)
def test_no_reference_leaves_the_document(reference: str) -> None:
    with pytest.raises(OutOfDocument):
        Scope(ROOT).resolve(reference)


@pytest.mark.parametrize("reference", [None, 5, ["#"], {"$ref": "#"}])
def test_what_is_no_text_is_no_reference(reference: Any) -> None:
    assert Scope(ROOT).find(reference) is None


def test_an_address_that_is_a_fragment_is_a_name() -> None:
    named = {"$id": "#old", "type": "null"}
    assert Scope({"definitions": {"A": named}}).resolve("#old") is named


def test_an_address_where_no_schema_stands_is_data() -> None:
    root: dict[str, Any] = {"components": {"A": {"$id": "a", "$anchor": "x"}}}
    assert Scope(root).find("a") is None
    assert Scope(root).find("#x") is None


def test_an_index_is_made_once_for_a_document_and_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    index = pointer._index

    def counted(root: Any) -> Any:
        made.append(id(root))
        return index(root)

    monkeypatch.setattr(pointer, "_index", counted)
    monkeypatch.setattr(pointer, "_INDEXES", LRUCache(max_size=130))
    roots = [{"$defs": {str(n): {"$anchor": f"a{n}"} for n in range(30)}} for _ in range(5)]
    for root in roots:
        assert [Scope(root).find("#a7") is not None for _ in range(3)] == [True] * 3
    assert made == [id(root) for root in roots]
    assert Scope(roots[0]).find("#a7") is not None  # dropped, and made again
    assert len(made) == 6
    large = {"$defs": {str(n): {"$anchor": f"a{n}"} for n in range(200)}}
    assert Scope(large).find("#a7") is not None
    assert pointer._INDEXES._size <= 130


@pytest.mark.parametrize("target", ["#a", "#/x-unknown/a"])
def test_the_index_of_names_is_made_before_the_time_of_a_check_begins(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Also that of a document too large to be kept, and for a reference that only another one leads to."""
    done: list[str] = []
    index, start = pointer._index, rules.Deadline.start

    def noted(name: str, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(given: Any) -> Any:
            done.append(name)
            return work(given)

        return run

    monkeypatch.setattr(pointer, "_index", noted("index", index))
    monkeypatch.setattr(rules.Deadline, "start", noted("start", start))
    monkeypatch.setattr(pointer, "_INDEXES", LRUCache(max_size=1))
    root = {
        "$defs": {"a": {"$anchor": "a", "type": "string"}, "b": {"$anchor": "b"}},
        "x-unknown": {"a": {"$ref": "#a"}},
        "properties": {"a": {"$ref": target}, "b": {"$ref": "#b"}},
    }
    checker = ArgumentChecker(ToolSet.of([Tool("f", parameters=root)]))
    assert checker.faults("f", '{"a": "x", "b": 1}') == []
    assert len(checker.faults("f", '{"a": 1, "b": 1}')) == 1
    assert done == ["index", "start", "start"]


def test_an_own_pointer_needs_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        pytest.fail("the whole document was walked")

    monkeypatch.setattr(pointer, "_index", refuse)
    assert Scope({**ROOT}).find("#/$defs/I/items") is not None
