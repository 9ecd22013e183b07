"""A backend that breaks off in the middle of its text: with an error, by garbage, or by going away.

What had come leaves, as if the model had been cut off there, and then the client is told.
"""

from __future__ import annotations

from tests.helpers.stream_rules import check_stream, check_whole
from tests.response.streams import chunk, completion, says
from toolcall_middleware.settings import Settings

from .dice import Dice, chance, pick, pieces
from .driven import stream, whole
from .frames import cuts, frame, payloads
from .texts import FORMATS, TOOLS, text_of
from .told import told

_REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}


def one(dice: Dice) -> str:
    """See the module."""
    settings = Settings(
        format="auto" if dice.below(2) else pick(dice, FORMATS),
        stream_arguments=not chance(dice, 3),
        reasoning_field=pick(dice, (None, "reasoning")),
    )
    text = text_of(dice, settings.format)[0].replace("\ud800", "?")
    text = text[: dice.below(len(text) + 1)]
    events = [chunk({"role": "assistant"}), *says(*pieces(dice, text))]
    ending = pick(dice, ("error", "cut", "garbage", "half", "no done"))
    if ending == "error":
        events.append({"error": {"message": "engine died", "code": 500}})
    data = frame(dice, events, done=False)
    if ending == "garbage":
        data += b"<html>502</html>"
    elif ending == "half":
        data += b'data: {"id": "c", "choices": [{"index": 0, "delta": {"cont'
    sent = cuts(dice, data)
    with told(text=text, ending=ending, settings=settings, sent=sent):
        outcome = stream(settings, _REQUEST, sent, cut=ending != "error")
        answer = whole(settings, _REQUEST, completion(text, "length"))
        if not outcome.body:
            assert outcome.error is not None
            had = check_whole(answer.body, tools={"weather", "find_all"}, objects=False).only
            assert (had.content or "", had.reasoning, had.calls) == ("", "", []), "text was lost"
            return ending
        stopped = outcome.error is None  # by us: the model went on with somebody else's turn
        got = check_stream(payloads(outcome.body), tools={"weather", "find_all"}, objects=False, error=not stopped).only
        if answer.error is not None:  # the model's own fault, which came before the backend's
            assert outcome.error == answer.error
            return str(answer.error)
        had = check_whole(answer.body, tools={"weather", "find_all"}, objects=False).only
        assert (got.content or "", got.reasoning) == (had.content or "", had.reasoning)
        assert got.named_calls == had.named_calls
        assert stopped or got.finish_reason is None, got.finish_reason
    return ending
