"""`<invoke name="f">` without its family's wrapper and marks, or in a plain one.

MiniMax and DeepSeek slip into it, and so do models that were shown Claude's transcripts.
Some gateways take the marks out.
"""

from __future__ import annotations

from ...parsing.cursor import Cursor, NotACall, Steps
from ...parsing.text.grammar import Opener, Where, beginnings
from .openers import shared
from .slots import Slots

INVOKE, NO_INVOKE = r"<i", r"<(?!i)"
"""What tells it from other tags in the same wrapper, and all of those."""

_HEAD = "<invoke name="
_NAME = r"[^\s<>\"']"


def invoke(wrapper: str) -> Slots:
    """`<invoke name="f">` in `<wrapper>`, without a line of its own for each tag."""
    return Slots(
        open=f"<{wrapper}>",
        call='<invoke name="{name}">{slots}</invoke>',
        slot='<parameter name="{key}">{value}</parameter>',
        close=f"</{wrapper}>",
    )


_bare = invoke("tool_calls")


def _if_offered(c: Cursor) -> Steps[None]:
    """Without a marker it is a call only of a tool that is offered."""
    if not c.sink.offered(c.opening[len(_HEAD) + 1 : -1]):
        raise NotACall
    yield from _bare(c)


BARE_INVOKE: tuple[Opener, ...] = (
    Opener(
        pattern=rf"{_HEAD}(?:\"{_NAME}{{1,256}}\"|'{_NAME}{{1,256}}')",
        partial=rf"{_HEAD}[\"']{_NAME}{{0,256}}|{beginnings(_HEAD)}",
        where=Where.LINE,
        consume=False,
        body=_if_offered,
    ),
    *(
        shared(f"<{wrapper}>", invoke(wrapper), INVOKE, undecided="<?")
        for wrapper in ("function_calls", "tool_calls", "tool_call")
    ),
)
