from __future__ import annotations

from toolcall_middleware.fading_memory import FadingMemory, digest


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_entry_is_there_until_its_time_is_over() -> None:
    clock = Clock()
    memory = FadingMemory[str, int](clock, most=3)
    memory.put("a", 1, seconds=10)
    clock.now = 10.0
    assert memory.get("a") == 1
    clock.now = 10.5
    assert memory.get("a") is None
    assert memory.get("b") is None


def test_what_is_noted_again_is_new_in_value_and_time() -> None:
    clock = Clock()
    memory = FadingMemory[str, int](clock, most=3)
    memory.put("a", 1, seconds=10)
    clock.now = 8.0
    memory.put("a", 2, seconds=10)
    clock.now = 17.0
    assert memory.get("a") == 2


def test_the_entry_that_was_noted_longest_ago_makes_room() -> None:
    memory = FadingMemory[str, int](Clock(), most=2)
    for number, key in enumerate("aba"):
        memory.put(key, number, seconds=10)
    assert memory.get("b") == 1  # a look is no note
    memory.put("c", 3, seconds=10)
    assert [memory.get(key) for key in "abc"] == [2, None, 3]


def test_a_digest_tells_where_one_part_ends() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"ab", b"c") == digest(b"ab", b"c")
