"""What was used last is kept, and never more than may be."""

from __future__ import annotations

from toolcall_middleware.lru_cache import LRUCache


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
