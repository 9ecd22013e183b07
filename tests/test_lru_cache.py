"""What was used last is kept, and never more than may be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.template import prompts
from toolcall_middleware.json_schema.pointer import Scope
from toolcall_middleware.lru_cache import LRUCache, digest
from toolcall_middleware.settings.settings import admits


def test_the_cache_is_bounded_in_number_and_size() -> None:
    cache: LRUCache[str, str] = LRUCache(max_entries=3, max_size=100)
    for key in "abcd":
        cache.put(key, key, size=10)
    assert [key for key in "abcd" if cache.get(key)] == ["b", "c", "d"]
    cache.get("b")
    cache.put("e", "e", size=10)
    assert [key for key in "bcde" if cache.get(key)] == ["b", "d", "e"]
    cache.put("large", "large", size=26)
    assert cache.get("large") is None
    for key in "fghijk":
        cache.put(key, key, size=25)
    assert len(cache) == 3
    small: LRUCache[int, str] = LRUCache(max_entries=100, max_size=100)
    for number in range(20):
        small.put(number, "x", size=25)
    assert len(small) == 4


def test_a_cache_may_be_bounded_by_size_alone() -> None:
    cache: LRUCache[int, int] = LRUCache(max_size=100)
    for number in range(10):
        cache.put(number, number, size=25)
    assert [cache.get(number) for number in range(10)] == [None] * 6 + [6, 7, 8, 9]
    cache.get(6)
    cache.put(10, 10, size=20)
    assert (cache.get(7), cache.get(6)) == (None, 6)


@pytest.mark.parametrize(
    "read",
    [registry.family_of, registry.opened_reasoning, partial(admits, ("get_*",)), prompts._short],
    ids=["family", "thought", "allowlist", "call id"],
)
def test_what_is_kept_by_name_keeps_no_name_of_any_size(read: Callable[[str], object]) -> None:
    """Clients make models, tools and ids up: some hundred names of a megabyte each would stay for good."""
    name = "qwen3-" + "x" * 1_000_000
    before = sys.getrefcount(name)
    read(name)
    assert sys.getrefcount(name) == before


def test_schemas_with_large_texts_are_not_kept_by_the_hundred() -> None:
    texts = [f"{number}{'x' * 1_000_000}" for number in range(40)]
    before = sys.getrefcount(texts[0])
    for text in texts:
        root = {"description": text, "$defs": {"a": {"$anchor": "a"}}, "properties": {"b": {"$ref": "#a"}}}
        assert Scope(root).find("#a")
        del root
    del text
    assert sum(sys.getrefcount(text) > before + 1 for text in texts) <= 10


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_entry_is_there_until_its_time_is_over() -> None:
    clock = Clock()
    cache = LRUCache[str, int](max_entries=3, clock=clock)
    cache.put("a", 1, seconds=10)
    clock.now = 10.0
    assert (cache.get("a"), cache.items()) == (1, [("a", 1)])
    clock.now = 10.5
    assert cache.items() == []
    assert (cache.get("a"), cache.get("b"), len(cache)) == (None, None, 0)


def test_what_is_put_again_is_new_in_value_time_and_order() -> None:
    clock = Clock()
    cache = LRUCache[str, int](max_entries=2, max_size=100, clock=clock)
    cache.put("a", 1, size=10, seconds=10)
    cache.put("b", 2, size=10, seconds=20)
    clock.now = 8.0
    cache.put("a", 3, size=20, seconds=10)
    clock.now = 17.0
    cache.put("c", 4, size=10, seconds=10)
    assert [cache.get(key) for key in "abc"] == [3, None, 4]
    assert cache._size == 30


def test_a_digest_tells_where_one_part_ends() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"ab", b"c") == digest(b"ab", b"c")
