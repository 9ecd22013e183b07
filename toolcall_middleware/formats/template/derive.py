"""From a chat template to a family: read its turns, find readers for its calls, and prove them by reading back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...parsing.text.grammar import Opener
from .. import markup
from ..family import Family
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.tool_results import between_tags, named
from ..syntax.shape import ANY_JSON, Rendered, reads
from . import probes, shapes, tools, turns
from .probes import PLAIN, UNLIKELY, as_call, context, said
from .render import ChatTemplate
from .response_template import DECLARATION, Declared
from .shapes import Syntax
from .turns import Turns, tokens

NAME = "template"
_ASKED = said(probes.USER)
_MAX_END = 64
_ODD = re.compile(r"[^\w\s]")
_TAG_NAME = re.compile(r"</?([A-Za-z_][\w:.-]{2,64})([\s>=/]?)")
_Call = tuple[str, Mapping[str, Any]]
"""A name and arguments."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Derived:
    """What a template shows of its model's calls."""

    family: Family | None
    """The family; None: `why` says what is missing."""
    kind: str = ""
    """How calls are written, in words."""
    like: str | None = None
    """The built-in family that writes or reads the same calls, whose reader is used."""
    read_back: int = 0
    """Of `tried` renderings of unlikely arguments, how many a reader gives back exactly."""
    tried: int = 0
    same_text: bool = False
    """The family's writer gives the same characters as the template."""
    sample: str = ""
    """Two calls as the template renders them, or one where it takes no more."""
    lost: tuple[str, ...] = ()
    """Arguments whose rendering cannot be distinguished from that of others."""
    unknown: tuple[str, ...] = ()
    """What could not be derived."""
    facts: dict[str, str] = field(default_factory=dict)
    why: str = ""
    proofs: tuple[Rendered, ...] = ()
    """Turns that the template renders, which the family reads back."""

    @property
    def confidence(self) -> str:
        """`certain`, `likely` or `none`."""
        if self.family is None:
            return "none"
        return "certain" if self.same_text and self.read_back == self.tried else "likely"


def derive(template: ChatTemplate, *, adopt: bool = True, declared: Declared | None = None) -> Derived:
    """The family of a chat template. adopt: a built-in family's reader is used where it is of the same calls.

    declared: what the checkpoint says of its calls, used where it reads them back, and alone where the template writes
    none. Raises FormatError where the template cannot be rendered at all.
    """
    found, why = turns.read(template), ""
    if not isinstance(found, str):
        if declared is not None and found.reasoning is None:
            found = replace(found, reasoning=declared.reasoning)
        plain, unlikely, beside = _rendered(template, found)
        if len(plain) < len(PLAIN):
            return Derived(family=None, why="the template does not render calls with arguments of every type")
        candidates = _candidates(found, plain, unlikely, adopt=adopt)
        if declared is not None:
            candidates = itertools.chain([declared.calls], candidates)
    elif declared is not None:
        why, candidates = found, iter((declared.calls,))
        eos = template.special.get("eos_token", "")
        found = Turns(layout=declared.layout, reasoning=declared.reasoning, ends=(eos,) if eos else ())
        plain, unlikely = map(declared.calls.written, (PLAIN, UNLIKELY))
        beside = []
    else:
        return Derived(family=None, why=found)
    syntax = next((one for one in candidates if one.reads_back(plain)), None)
    if syntax is None:
        return Derived(
            family=None,
            sample=plain[0].text,
            why=f"no reader gives the rendered calls back, which begin like {plain[0].text[:80]!r}",
        )
    marks = tokens(found.layout.opening + found.layout.before) or [""]
    block = tools.OURS if why else tools.read(template, found, marks[0])
    tried = [*plain, *unlikely]
    good = [turn for turn in tried if syntax.reads_back([turn])]
    whose = "our words" if syntax.like is None else f"the words of {syntax.like}"
    unknown = {
        f"what {DECLARATION} does not say ({why}): the prompt presents tools and results in our words": why,
        f"{DECLARATION} does not read what the chat template renders, which tells instead": (
            declared is not None and syntax is not declared.calls
        ),
        "text beside a call: the template does not have it in one turn with the call": (not syntax.reads_back(beside)),
        f"how the template presents tools: the prompt says it in {whose}": block.own_words and not why,
        "the markers around reasoning": found.reasoning is None,
        "tags around a result: our own are used": found.result is None and not why,
        "what is between two calls: the template writes one a turn": found.layout.between is None and not why,
    }
    return Derived(
        family=_family(found, syntax, block),
        kind=syntax.kind,
        like=syntax.like,
        read_back=len(good),
        tried=len(tried),
        same_text=not why and all((syntax.write(turn.calls) or "").strip() == turn.text for turn in plain),
        sample=max(tried, key=lambda turn: len(turn.calls)).text,
        lost=tuple(turn.calls[0].arguments for turn in tried if turn not in good),
        unknown=tuple(said for said, is_so in unknown.items() if is_so),
        facts={
            "reasoning": " … ".join(found.reasoning or ()),
            "ends of a turn": " ".join(found.ends),
            "others' turns": " ".join(found.stops),
            "results": " … ".join(found.result or ()),
            "tools": block.place,
        },
        proofs=tuple(plain),
    )


def _rendered(template: ChatTemplate, found: Turns) -> list[list[Rendered]]:
    """Turns with calls as the template renders them, without the turn's own markers: with arguments that any reader
    gives back, with unlikely ones, and with text beside a call, which not all templates have in one turn.
    """
    plain: list[list[_Call]] = [[("look_up", arguments)] for arguments in PLAIN]
    unlikely: list[list[_Call]] = [[("look_up", arguments)] for arguments in UNLIKELY]
    several: list[list[_Call]] = [[(probes.NAMES[0], probes.SAMPLE), (probes.NAMES[1], {"days": 7})]]
    groups = [
        ("", [*plain, *(several if found.layout.between is not None else ())]),
        ("", unlikely),
        (probes.CONTENT, plain[:1]),
    ]
    contexts = [
        context([_ASKED, found.dialect.calls(calls, **({"content": content} if content else {}))])
        for content, turns in groups
        for calls in turns
    ]
    texts = map(found.calls_of, template.render(contexts))
    return [
        [
            Rendered(inner, tuple(as_call(*call) for call in calls), content)
            for calls, inner in zip(turns, texts, strict=False)
            if inner is not None and calls[0][0] in inner
        ]
        for content, turns in groups
    ]


def _candidates(
    found: Turns, plain: Sequence[Rendered], unlikely: Sequence[Rendered], *, adopt: bool
) -> Iterator[Syntax]:
    """Ways to read and write the calls, best first."""
    own = shapes.of_layout(found.layout, {turn.calls[0].arguments: turn.text for turn in (*unlikely, *plain)})
    known: tuple[Family, ...] = markup.families() if adopt else ()
    # Several families write the same: the one with the most models comes first. A form without known models (the
    # loose dialects) is no evidence about a template.
    models = {family: len(family.models) + len(family.alike) + len(family.fine_tunes) for family in known}
    families = sorted(filter(models.get, known), key=lambda family: -models[family])
    for family in families:
        if all((family.write(turn.calls) or "").strip() == turn.text for turn in plain):
            yield _of_family(family, None)
    readers = [family for family in families if all(reads(_own_openers(family), turn) for turn in plain)]
    for family in readers:
        if any(_opens(opener, plain[0].text) for opener in _own_openers(family)):
            yield _of_family(family, own)
    if own is not None:
        yield own
    for family in readers:
        yield _of_family(family, own)


def _own_openers(family: Family) -> tuple[Opener, ...]:
    return (*family.auto_openers, *family.own_openers)


def _opens(opener: Opener, text: str) -> bool:
    """Whether the text begins with the opener's marker, and that is more than a bracket."""
    if opener.marker:
        return len(opener.marker) > 1 and text.startswith(opener.marker)
    return re.match(opener.pattern, text) is not None


def _of_family(family: Family, own: Syntax | None) -> Syntax:
    writer = None if own is None else own.calls
    return Syntax(f"as {family.name}: {family.about}", _own_openers(family), family.calls, writer, family.name)


def _family(found: Turns, syntax: Syntax, block: tools.ToolBlock) -> Family:
    model: Family | None = markup.by_name().get(syntax.like)
    words = model if block.own_words and model is not None else block
    results = named if model is None else model.results
    if found.result is not None:
        results = between_tags(*found.result)
    return Family(
        name=NAME,
        about=syntax.kind,
        calls=syntax.calls,
        auto_openers=syntax.openers,
        fallback=ANY_JSON,
        markup=_markup(found),
        prompt=words.prompt,
        tool=words.tool,
        between=words.between,
        write=syntax.write,
        results=results,
        answer="the call in that form" if model is None else model.answer,
        noun="tool" if model is None else model.noun,
        special_tokens=_special(found) or (model is not None and model.special_tokens),
        trigger=syntax.calls.trigger if model is None else model.trigger,
        constrain=None if model is None else model.constrain,
    )


def _special(found: Turns) -> bool:
    """Whether the markers look like special tokens, which a backend leaves out unless asked for them."""
    first = tokens(found.layout.opening + found.layout.before)[:1]
    return bool(first) and shapes.is_special(first[0])


def _markup(found: Turns) -> Markup:
    """The template's own markers: read around calls, and kept out of tool results."""
    layout = found.layout
    marks = tokens(layout.opening + layout.before) + tokens(layout.after + layout.closing)
    ends = tuple(end for end in found.ends if len(end) <= _MAX_END and len(_ODD.findall(end)) > 1)
    marks += [*found.stops, *ends, *(found.reasoning or ())]
    escapes: list[Escape] = []
    # A tag with an attribute is not a complete marker.
    whole = "".join((layout.opening, layout.call, layout.region, layout.closing, *marks))
    begun = dict.fromkeys(_TAG_NAME.findall(whole))
    names = [name for name, end in begun if not escaping.has_markup(f"<{name}{end or '>'}")]
    tags = [f"/?{re.escape(name)}[\\s>=/]" for name in names]
    for mark in dict.fromkeys(marks):
        if escaping.has_markup(mark) or len(mark) < 3 or _TAG_NAME.match(mark):
            continue
        if mark.startswith("<"):
            tags.append("/?" + re.escape(mark.lstrip("</")))
        else:
            escapes.append(Escape(re.escape(mark[0]), re.escape(mark[1:])))
    return Markup(
        reasoning=(found.reasoning,) if found.reasoning is not None else (),
        stops=found.stops,
        ends=ends,
        tags=tuple(dict.fromkeys(tags)),
        escapes=tuple(escapes),
    )
