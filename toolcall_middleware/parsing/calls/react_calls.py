"""Calls as ReAct prompts have them: a line with the tool's name, and one with its input, which is a JSON object.

    Thought: I need the weather.
    Action: get_weather
    Action Input: {"city": "Paris"}
    Observation: …

The observation is the tool's to make: a model that writes one speaks for somebody else.
"""

from __future__ import annotations

from ..cursor import MAX_GAP, Cursor, NotACall, Steps
from .call_arguments import CallArguments
from .named_calls import FENCE, before_arguments

OBSERVATION = "Observation:"
_MAX_FENCE = 32


def read_react(cursor: Cursor) -> Steps[None]:
    """Read such a call after `Action Input:`."""
    name = cursor.opening.split("\n")[0].partition(":")[2].strip()
    fenced = yield from _fence(cursor)
    if (yield from before_arguments(cursor)) != "{":
        raise NotACall
    arguments = CallArguments("{", written=cursor.sink.arguments)
    early: list[str] = []
    while not (arguments.settled or arguments.done):
        # No marker that a tokenizer knows stands before it: it is a call when a first key has come.
        cursor.i, text = arguments.feed(cursor.s, cursor.i)
        early.append(text)
        if arguments.doubtful or (arguments.stuck and not arguments.settled):
            raise NotACall
        if not arguments.settled:
            yield from cursor.more()
    cursor.start(name)
    cursor.arguments = arguments
    cursor.sink.args("".join(early))
    if not arguments.done:
        yield from cursor.copy(arguments)
    cursor.end()
    yield from _behind(cursor, fenced=fenced)


def _fence(cursor: Cursor) -> Steps[bool]:
    """Whether a code block opens before the input."""
    while True:
        s, j = cursor.s, cursor.behind_space(MAX_GAP)
        if j < len(s):
            m = FENCE.match(s, j)
            if m is None or m.end() < len(s) or cursor.last or m.end() - j >= _MAX_FENCE:
                if m is None and not cursor.last and "```".startswith(s[j:]):
                    yield from cursor.more()
                    continue
                cursor.i = j if m is None else m.end()
                return m is not None
        elif cursor.last or j - cursor.i >= MAX_GAP:
            return False
        yield from cursor.more()


def _behind(cursor: Cursor, *, fenced: bool) -> Steps[None]:
    """Behind the input: the end of its code block, and an observation that the model made up."""
    ends = ("```",) if fenced else ()
    while True:
        j = cursor.behind_space(MAX_GAP)
        if cursor.take(ends, j):
            ends = ()
            continue
        if cursor.s.startswith(OBSERVATION, j) and "\n" in cursor.s[cursor.i : j]:
            cursor.sink.stopped_at = OBSERVATION
            return
        if cursor.last or not (j == len(cursor.s) or cursor.begins((*ends, OBSERVATION), j)) or j - cursor.i >= MAX_GAP:
            return
        yield from cursor.more()
