"""The formats by name, and by the name of a model.

All families are imported when the first is asked for: every reader knows all markers.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib
import logging
import re
from typing import TYPE_CHECKING, Any

from ..errors import FormatError
from ..parsing.text.reasoning import OpenedReasoning
from . import markup
from .base import ToolFormat
from .prompt.thoughts import NO_THOUGHTS, Returned, Thoughts

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..settings import Settings

_log = logging.getLogger("toolcall_middleware")

ENTRY_POINTS = "toolcall_middleware.formats"
TEMPLATE = "template"
"""The format that is derived from a checkpoint's chat template. It is not among the names: it needs a template."""

_METHODS = ("render_tools", "render_choice", "render_calls", "render_results", "parser", "constraint")


def names() -> list[str]:
    """All names that `get` knows: the built-in ones, then those of installed packages."""
    known = ["auto", *(family.name for family in markup.families())]
    return [*known, *sorted(set(_installed()) - set(known))]


@functools.cache
def get(name: str) -> ToolFormat:
    """The format of this name, or of a place in a module of the operator's: `package.module:FAMILY`.

    Raises FormatError, which lists the known names. Importing a module runs it: no request may give such a place.
    """
    if name == "auto":
        return _auto("json")
    built_in: ToolFormat | None = markup.by_name().get(name)
    if built_in is not None:
        return built_in
    if name == TEMPLATE:
        raise FormatError("template: say where the template is, with the setting `template`")
    if ":" in name:
        return _of_place(name)
    entry = _installed().get(name)
    if entry is None:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise FormatError(f"{name} is not a format; {hint}known: {', '.join(names())}")
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise FormatError(f"the format {name} ({entry.value}) cannot be loaded: {error}") from error
    return _made(loaded)


def is_place(name: str) -> bool:
    """Whether `name` says where a format is in a module, as only an operator may."""
    return ":" in name


def of_settings(settings: Settings) -> ToolFormat | None:
    """The format that is set; None where the proxy has to ask its upstream first. Raises FormatError, which also names
    the setting, and SettingsError for a template that cannot be read.
    """
    if settings.template == "props" and settings.upstream_url is not None:
        return None
    if settings.send != "chat":
        from .template import sources

        sources.check_send(settings)
    try:
        if settings.format == TEMPLATE:
            return _derived(settings.template)
        if settings.format == "auto" and settings.template is not None:
            from .template import sources

            sources.derived(settings.template, "")  # now, because it takes time
        return get(settings.format)
    except FormatError as error:
        raise FormatError(f"{settings.where('format')}: {error}") from None


def for_model(name: str, model: str, template: str | None = None) -> ToolFormat:
    """The format of this name as `model` wants it: `auto` writes the prompt as the model's family does, and where the
    name has no known family as the checkpoint's template does (the setting `template`). Formats that do not depend on
    models are returned unchanged.
    """
    if name == TEMPLATE:
        return _derived(template)
    if name == "auto":
        return _auto_for(model, template)
    fmt = get(name)
    choose = getattr(fmt, "for_model", None)
    if choose is None:
        return fmt
    chosen: ToolFormat = choose(model)
    return chosen


def _auto_for(model: str, template: str | None) -> ToolFormat:
    """`auto` for a model. The same object for all models of a family."""
    name = family_of(model)
    if name is None and template is not None:
        from .template import sources

        derived = sources.derived(template, model)
        if derived is not None and derived.family is not None:
            from . import family

            return family.auto_of_derived(derived.family, derived.proofs)
    return _auto(name or "json")


def _auto(name: str) -> ToolFormat:
    """`auto` for the models of a family."""
    from . import family  # it imports the readers of all calls

    own: family.Family = markup.by_name()[name]
    return family.auto(markup.by_name()[own.auto_prompt or name], own)


def prompt_name(fmt: ToolFormat) -> str:
    """The name of the format in which `fmt` writes the prompt: `auto` reads all formats and writes as one of them."""
    return str(getattr(fmt, "prompt_name", "") or fmt.name)


def in_json(fmt: ToolFormat) -> ToolFormat:
    """`auto` with the prompt of `json`; any other format unchanged."""
    from . import family

    return family.in_json(fmt) if isinstance(fmt, family.Family) and fmt.name == "auto" else fmt


def of_template(name: str, template: str | None, model: str = "") -> ToolFormat:
    """The format of this name for an existing text. With a template (the setting), `auto` also reads the calls that the
    template writes. model: its name, where that is known. Raises FormatError and SettingsError.
    """
    return get(name) if template is None else for_model(name, model, template)


def _derived(template: str | None) -> ToolFormat:
    from .template import sources

    return sources.required(template)


def _of_place(place: str) -> ToolFormat:
    """The format `package.module:FAMILY`. Raises FormatError."""
    module, _, attribute = place.partition(":")
    if not (attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise FormatError(f"{place} is not a format; a format of your own is given as package.module:FAMILY")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise FormatError(f"{place} is not a format: {module} cannot be imported: {error}") from error
    except AttributeError:
        raise FormatError(f"{place} is not a format: {module} has no {attribute}") from None
    made = _made(found)
    missing = [method for method in _METHODS if not callable(getattr(made, method, None))]
    if missing or not isinstance(getattr(made, "name", None), str):
        lacking = ", ".join(missing or ["name"])
        raise FormatError(f"{place} is not a format: it is of the type {type(made).__name__} and lacks {lacking}")
    return made


def _made(found: Any) -> ToolFormat:
    """A format is an object; a class is called without arguments to get one. Its markup is added to all readers."""
    made: ToolFormat = found() if isinstance(found, type) else found
    if isinstance(own := getattr(made, "markup", None), markup.Markup):
        markup.add(own)
    return made


@functools.cache
def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # it imports the email package, which nothing else needs

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


@functools.cache
def plain() -> ToolFormat:
    """No syntax at all: for requests that offer no tools. Reasoning is still separated from text."""
    from .families.prompted import PLAIN

    return PLAIN


# -- what a model's name says ------------------------------------------------------------------------------------------
# Its family, which is the format in which `auto` writes the prompt, and its reasoning. Reading needs no such table:
# `auto` reads every family. A model that is not here gets the prompt of `json`; the setting `format` says otherwise for
# all models. The families declare the names. A version that none of them names (`deepseek-v5`) is taken for the newest
# one before it: a maker's next model is closer to that than to no syntax at all.
#
# Sources that they cite:
# [vllm] docs/features/tool_calling.md, what each --tool-call-parser is for; [recipes] docs.vllm.ai/projects/recipes
# [sglang] docs/advanced_features/tool_parser, the table of parsers
# [llama.cpp] docs/function-calling.md and models/templates
# [card] the model's card or chat template on huggingface.co
# [mistral] docs.mistral.ai and mistral-common: the version of the model's tokenizer

MAX_NAME = 512
"""Characters of a name that is looked up. A longer one is a client's, can have any size, and is not cached."""
_HYPHEN = re.compile(r"(?<=[a-z])-(?=[0-9])")

# Families whose names are part of others' models' names: where the globs of two match, these decide, in this order.
# (Fine-tunes say themselves that they come before them: Family.fine_tunes.)
_FIRST = (("deepseek",), ("hermes", "qwen"), ("llama", "pythonic"), ("mistral",), ("harmony",), ("kimi",), ("glm",))


@functools.cache
def table() -> tuple[tuple[str, str], ...]:
    """Globs over the parts of a model's name, and the format of each; the first that matches decides.

    The parts are lower-cased, `_` is `-`, and no `-` is between a letter and a digit (`llama-3.1` and `llama3.1`
    are one). A glob may begin at the part's start or after `-`, `.`, `:` or `=`, and what follows it (size, date,
    quantisation, `:latest`, `.gguf`) is free.

    Fine-tunes come first, then models by their own names, then those that only write like a family. Within each of
    the three: those of `_FIRST`, then all others; and a longer glob, which says more, before a shorter one.
    """
    rows: list[tuple[tuple[int, int, int], str, str]] = []
    for family in markup.families():
        rank = next((at for at, names in enumerate(_FIRST) if family.name.startswith(names)), len(_FIRST))
        for kind, globs in enumerate((family.fine_tunes, family.models, family.alike)):
            rows += [((kind, rank, -len(glob)), glob, family.name) for glob in globs]
    rows.sort(key=lambda row: row[:1])
    return tuple((glob, name) for _, glob, name in rows)


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    return tuple((glob, _pattern(glob), name) for glob, name in table())


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(r"(?:^|[-.:=])" + fnmatch.translate(glob + "*").removesuffix(r"\Z"))


def _parts(model: str) -> list[str]:
    """Organisations, folders and a cache's `models--org--name`."""
    return re.split(r"[/\\]|--", model.lower().replace("_", "-"))


_Version = tuple[int, ...]

# A glob of models of one version, or of several: `kimi-k3`, `glm4.[56]`.
_VERSIONED = re.compile(r"(?P<stem>[a-z][a-z-]*[a-z])(?P<major>1?\d)(?:\.(?P<minor>\d|\[\d(?:-?\d)*\]))?")
_RANGE = re.compile(r"(\d)-(\d)|(\d)")


def _versions(glob: str) -> tuple[str, list[_Version]]:
    """The text before the version in a glob, and the versions; the whole glob and no versions where it names none."""
    m = _VERSIONED.fullmatch(glob)
    if m is None:
        return glob, []
    major = int(m["major"])
    if m["minor"] is None:
        return m["stem"], [(major,)]
    minors: list[int] = []
    for low, high, one in _RANGE.findall(m["minor"]):
        minors += [int(one)] if one else range(int(low), int(high) + 1)
    return m["stem"], [(major, minor) for minor in minors]


@functools.cache
def _known() -> dict[str, dict[_Version, str]]:
    """The versions of each line of models of which a family names one as its own, and the format of each."""
    own: dict[str, dict[_Version, str]] = {}
    others: dict[str, dict[_Version, str]] = {}
    for family in markup.families():
        for globs, found in ((family.models, own), (family.alike, others)):
            for stem, versions in map(_versions, globs):
                found.setdefault(stem, {}).update(dict.fromkeys(versions, family.name))
    return {stem: others.get(stem, {}) | known for stem, known in own.items() if known}


@functools.cache
def _line() -> re.Pattern[str]:
    stems = "|".join(map(re.escape, sorted(_known(), key=len, reverse=True)))
    # A number that a letter follows is a size (`qwen-4b`), a longer one a date or a size.
    return re.compile(rf"(?:^|[-.:=])(?P<stem>{stems})(?P<major>1?\d)(?:\.(?P<minor>\d{{1,2}}))?(?![\da-z]|\.\d)")


def _nearest(part: str) -> tuple[str, str, bool] | None:
    """For a versioned name: its line, the format of the newest known version up to its own, and whether that is it.

    None where all known versions are newer, or some are and none of the others has the same major version.
    """
    m = _line().search(part)
    if m is None:
        return None
    version: _Version = tuple(int(number) for number in (m["major"], m["minor"]) if number is not None)
    known = _known()[m["stem"]]
    before = [other for other in known if other <= version]
    if not before or (max(before)[0] != version[0] and version < max(known)):
        return None
    nearest = max(before)
    return m["stem"], known[nearest], version[: len(nearest)] == nearest


@functools.lru_cache(maxsize=512)
def _family_of(model: str) -> str | None:
    for part in reversed(_parts(model)):  # the last that is known decides
        short = _HYPHEN.sub("", part)
        glob, name = next(((glob, name) for glob, pattern, name in _patterns() if pattern.search(short)), ("", None))
        nearest = _nearest(short)
        if nearest is not None and (name is None or _versions(glob)[0] == nearest[0]):
            _, found, known = nearest
            if not known:
                _log.warning("%r is of a version that is not known: its prompt is written as for %s.", part, found)
            return found
        if name is not None:
            return name
    return None


def matches(model: str, glob: str) -> bool:
    """Whether a glob, written as those of `table`, matches a part of a model's name."""
    return len(model) <= MAX_NAME and any(_pattern(glob).search(_HYPHEN.sub("", part)) for part in _parts(model))


def family_of(model: str) -> str | None:
    """The format of the family that `model` (`Qwen/Qwen3-8B-AWQ`, `qwen3:8b`, a path) belongs to, None if unknown.

    An unknown version is logged.
    """
    return _family_of(model) if len(model) <= MAX_NAME else None


# -- reasoning -------------------------------------------------------------------------------------------------------


def thoughts_of_format(fmt: object) -> Thoughts:
    """The reasoning of the family that a format writes the prompt of."""
    found = getattr(fmt, "thoughts", None)
    return found if isinstance(found, Thoughts) else NO_THOUGHTS


def thoughts_of(fmt: object, model: str) -> Thoughts:
    """The reasoning of a model: as its own family has it, by its name, else as that of the format."""
    own = markup.by_name().get(family_of(model))
    return thoughts_of_format(own or fmt)


def opened_reasoning(model: str) -> OpenedReasoning | None:
    """The reasoning that the template of this model opens; None if it opens none, or the name is unknown."""
    return _opened_reasoning(model) if len(model) <= MAX_NAME else None


@functools.lru_cache(maxsize=512)
def _opened_reasoning(model: str) -> OpenedReasoning | None:
    for thoughts in (one.thoughts for one in markup.families()):
        if any(matches(model, glob) for glob in thoughts.opened):
            return None if any(matches(model, glob) for glob in thoughts.unopened) else thoughts.tags
    return None


def returned(thoughts: Thoughts, model: str) -> Returned:
    """Of which turns the model of this name reads its reasoning again."""
    for glob, (differs, _) in thoughts.other.items():
        if matches(model, glob):
            return differs
    return thoughts.returned
