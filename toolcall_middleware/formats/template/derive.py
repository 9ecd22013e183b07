"""From a chat template to a family: read its turns, find readers for its calls, and prove them by reading back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...parsing.text.grammar import Opener
from .. import markup
from ..family import Family
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.tool_results import between_tags, named
from ..syntax.shape import ANY_JSON, Rendered, reads
from . import probes, shapes, tools, turns
from .layout import tokens
from .probes import PLAIN, UNLIKELY, as_call, context, said
from .render import ChatTemplate
from .response_template import DECLARATION, Declared
from .shapes import Syntax
from .turns import Turns

NAME = "template"
_ASKED = said(probes.USER)
_MAX_END = 64
_ODD = re.compile(r"[^\w\s]")
_TAG_NAME = re.compile(r"</?([A-Za-z_][\w:.-]{2,64})([\s>=/]?)")


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
    found = turns.read(template)
    if isinstance(found, str):
        return Derived(family=None, why=found) if declared is None else _as_declared(template, declared, found)
    if declared is not None and found.reasoning is None:
        found = replace(found, reasoning=declared.reasoning)
    plain, unlikely, beside = _rendered(template, found)
    if len(plain) < len(PLAIN):
        return Derived(family=None, why="the template does not render calls with arguments of every type")
    candidates = _candidates(found, plain, unlikely, adopt=adopt)
    if declared is not None:
        candidates = itertools.chain([(declared.calls, None)], candidates)
    chosen = next((one for one in candidates if all(reads(_openers(one[0]), turn) for turn in plain)), None)
    if chosen is None:
        return Derived(
            family=None,
            sample=plain[0].text,
            why=f"no reader gives the rendered calls back, which begin like {plain[0].text[:80]!r}",
        )
    syntax, like = chosen
    block = tools.read(template, found, (tokens(found.layout.opening + found.layout.before) or [""])[0])
    unknown: list[str] = []
    if declared is not None and syntax is not declared.calls:
        unknown.append(f"{DECLARATION} does not read what the chat template renders, which tells instead")
    if not all(reads(_openers(syntax), turn) for turn in beside):
        unknown.append("text beside a call: the template does not have it in one turn with the call")
    if block.own_words:
        whose = "our words" if like is None else f"the words of {like}"
        unknown.append(f"how the template presents tools: the prompt says it in {whose}")
    if found.reasoning is None:
        unknown.append("the markers around reasoning")
    if found.result is None:
        unknown.append("tags around a result: they stand in our own")
    if found.layout.between is None:
        unknown.append("what stands between two calls: the template writes one a turn")
    proved = _proved(found, syntax, like, block, [*plain, *unlikely], unknown)
    return replace(
        proved,
        like=like,
        same_text=all((syntax.write(turn.calls) or "").strip() == turn.text for turn in plain),
        proofs=tuple(plain),
        facts={
            **proved.facts,
            "ends of a turn": " ".join(found.ends),
            "others' turns": " ".join(found.stops),
            "results": " … ".join(found.result or ()),
            "tools": block.place,
        },
    )


def _as_declared(template: ChatTemplate, declared: Declared, why: str) -> Derived:
    """The declared family. why: what the template does not show."""
    syntax, eos = declared.calls, template.special.get("eos_token", "")
    found = Turns(
        dialect=probes.DIALECTS[0],
        layout=declared.layout,
        begin="",
        end="",
        reasoning=declared.reasoning,
        ends=(eos,) if eos else (),
    )
    written = [(call, syntax.write([call])) for call in (as_call("look_up", each) for each in (*PLAIN, *UNLIKELY))]
    tried = [Rendered(text, (call,)) for call, text in written if text is not None]
    unknown = [f"what {DECLARATION} does not say ({why}): the prompt presents tools and results in our words"]
    if not declared.reasoning:
        unknown.append("the markers around reasoning")
    return _proved(found, syntax, None, tools.OURS, tried, unknown)


def _proved(
    found: Turns,
    syntax: Syntax,
    like: str | None,
    block: tools.ToolBlock,
    tried: Sequence[Rendered],
    unknown: Sequence[str],
) -> Derived:
    """The family of these calls, and which of the turns that were tried it reads back."""
    good = [turn for turn in tried if reads(_openers(syntax), turn)]
    return Derived(
        family=_family(found, syntax, like, block),
        kind=syntax.kind,
        read_back=len(good),
        tried=len(tried),
        sample=max(tried, key=lambda turn: len(turn.calls)).text,
        lost=tuple(turn.calls[0].arguments for turn in tried if turn not in good),
        unknown=tuple(unknown),
        facts={"reasoning": " … ".join(found.reasoning or ())},
        proofs=tuple(turn for turn in good if turn.calls[0].arguments != "{}"),
    )


def _openers(syntax: Syntax) -> tuple[Opener, ...]:
    return (*syntax.openers, *ANY_JSON)


def _rendered(template: ChatTemplate, found: Turns) -> tuple[list[Rendered], list[Rendered], list[Rendered]]:
    """Turns with calls as the template renders them, without the turn's own markers: with arguments that any reader
    gives back, with unlikely ones, and with text beside a call, which not all templates have in one turn.
    """
    single = [("look_up", arguments) for arguments in (*PLAIN, *UNLIKELY)]
    asked = [([call], "") for call in single]
    asked.append((single[:1], probes.CONTENT))
    if found.layout.between is not None:
        asked.append(([(probes.NAMES[0], probes.SAMPLE), (probes.NAMES[1], {"days": 7})], ""))
    contexts = [
        context([_ASKED, found.dialect.calls(calls, **({"content": content} if content else {}))])
        for calls, content in asked
    ]
    plain: list[Rendered] = []
    unlikely: list[Rendered] = []
    beside: list[Rendered] = []
    for (calls, content), text in zip(asked, template.render(contexts), strict=True):
        inner = found.calls_of(text)
        if inner is not None and calls[0][0] in inner:
            group = beside if content else unlikely if calls[0][1] in UNLIKELY else plain
            group.append(Rendered(inner, tuple(as_call(*call) for call in calls), content))
    return plain, unlikely, beside


def _candidates(
    found: Turns, plain: Sequence[Rendered], unlikely: Sequence[Rendered], *, adopt: bool
) -> Iterator[tuple[Syntax, str | None]]:
    """Ways to read and write the calls, best first."""
    texts = {turn.calls[0].arguments: turn.text for turn in (*unlikely, *reversed(plain))}
    own = shapes.of_layout(found.layout, lambda arguments: texts.get(probes.written(arguments)))
    known: tuple[Family, ...] = markup.families() if adopt else ()
    # Several families write the same: the one with the most models comes first. A form without known models (the
    # loose dialects) is no evidence about a template.
    models = {family: len(family.models) + len(family.alike) + len(family.fine_tunes) for family in known}
    families = sorted(filter(models.get, known), key=lambda family: -models[family])
    for family in families:
        if all((family.write(turn.calls) or "").strip() == turn.text for turn in plain):
            yield _of_family(family, None), family.name
    readers = [family for family in families if all(reads(_own_openers(family), turn) for turn in plain)]
    for family in readers:
        if any(_opens(opener, plain[0].text) for opener in _own_openers(family)):
            yield _of_family(family, own), family.name
    if own is not None:
        yield own, None
    for family in readers:
        yield _of_family(family, own), family.name


def _own_openers(family: Family) -> tuple[Opener, ...]:
    return (*family.auto_openers, *family.own_openers)


def _opens(opener: Opener, text: str) -> bool:
    """Whether the text begins with the opener's marker, and that is more than a bracket."""
    if opener.marker:
        return len(opener.marker) > 1 and text.startswith(opener.marker)
    return re.match(opener.pattern, text) is not None


def _of_family(family: Family, own: Syntax | None) -> Syntax:
    writer = None if own is None else own.calls
    return Syntax(f"as {family.name}: {family.about}", _own_openers(family), family.calls, writer)


def _family(found: Turns, syntax: Syntax, like: str | None, block: tools.ToolBlock) -> Family:
    model: Family | None = markup.by_name().get(like)
    if block.own_words and model is not None:
        prompt, tool, between = model.prompt, model.tool, model.between
    else:
        prompt, tool, between = block.prompt, block.tool, block.between
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
        prompt=prompt,
        tool=tool,
        between=between,
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
