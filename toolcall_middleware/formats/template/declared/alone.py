"""A family of what a checkpoint declares of its answers, where its chat template writes no calls itself."""

from __future__ import annotations

from ....parsing.text.grammar import Opener
from ... import reading
from ...family import Family
from .. import json_syntax, tools
from ..compare import tokens
from ..derive import DECLARATION, NAME, Declared, Derived, own_markup
from ..probes import PLAIN, UNLIKELY, as_call
from ..render import ChatTemplate
from ..round_trip import Rendered, reads


def of(template: ChatTemplate, declared: Declared, why: str) -> Derived:
    """The family. why: what the template does not tell."""
    calls = declared.calls
    turns = _written(declared)
    openers: tuple[Opener, ...] = (*calls.openers, *reading.ANY_JSON)
    good = [turn for turn in turns if reads(openers, turn)]
    sample = turns[0].text if turns else ""
    marks = [*tokens(sample), *(opener.marker for opener in calls.openers if opener.marker)]
    eos = template.special.get("eos_token", "")
    family = Family(
        name=NAME,
        about=calls.kind,
        calls=calls.calls,
        auto_openers=calls.openers,
        markup=own_markup(sample, marks, ends=(eos,) if eos else (), reasoning=declared.reasoning),
        prompt=tools.OURS.prompt,
        tool=tools.OURS.tool,
        between=tools.OURS.between,
        answer="the call in that form",
        noun="tool",
        special_tokens=any(json_syntax.is_special(mark) for mark in marks),
    )
    return Derived(
        family=family,
        kind=calls.kind,
        read_back=len(good),
        tried=len(turns),
        sample=sample,
        lost=tuple(turn.calls[0].arguments for turn in turns if turn not in good),
        unknown=(
            f"what {DECLARATION} does not say ({why}): the prompt presents tools and results in our words",
            *(() if declared.reasoning else ("the markers around reasoning",)),
        ),
        facts={"reasoning": " … ".join(declared.reasoning or ())},
        proofs=tuple(turn for turn in good if turn.calls[0].arguments != "{}"),
    )


def _written(declared: Declared) -> list[Rendered]:
    """Calls as they are declared, of those arguments that can be."""
    found = []
    for arguments in (*PLAIN, *UNLIKELY):
        call = as_call("look_up", arguments)
        text = declared.calls.write([call])
        if text is not None:
            found.append(Rendered(text, (call,)))
    return found
