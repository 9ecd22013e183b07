"""The formats by name. All families are imported when the first is asked for: every reader knows all markers."""

from __future__ import annotations

import difflib
import functools
import importlib
from typing import TYPE_CHECKING, Any

from ..errors import FormatError
from . import markup
from .base import ToolFormat

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..settings import Settings

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
    from . import models

    name = models.family(model)
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
