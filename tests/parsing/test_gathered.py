from __future__ import annotations

import tracemalloc

import pytest

from toolcall_middleware.parsing.text_buffer import Gathered


def test_text_comes_back_once_and_whole() -> None:
    gathered = Gathered()
    pieces = [str(number) for number in range(3000)]
    for piece in pieces:
        gathered.write(piece)
    assert gathered.take() == "".join(pieces)
    gathered.write("x")
    assert gathered.take() == "x"
    assert not gathered.take()


@pytest.mark.slow
def test_small_pieces_take_no_more_than_their_text() -> None:
    gathered = Gathered()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(100_000):
        gathered.write(f"{number:04}"[:4])
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1.3 * 400_000
    assert peak - before < 1.5 * 400_000
