"""The formats by name, each imported when it is first asked for."""

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
    from .template.derive import Derived

ENTRY_POINTS = "toolcall_middleware.formats"
TEMPLATE = "template"
"""The format that is derived from a checkpoint's chat template. It is not among the names: it needs a template."""

# In the order of the list of formats: name, and the lineage's module in families/. A module that is not here holds one
# format of its own name, which comes behind these: a new family is one file. (Neither can be asked of the modules
# themselves: a name must be known without importing forty of them.)
_LINEAGES: dict[str, str] = {
    "json": "fenced_json",
    "hermes": "qwen",
    "reka": "reka",
    "granite4": "granite",
    "ernie45": "ernie",
    "longcat": "longcat",
    "qwen3_coder": "qwen",
    "step3p5": "step",
    "seed_oss": "seed",
    "minicpm5": "minicpm",
    "llama3_json": "llama",
    "pythonic": "llama",
    "llama4_pythonic": "llama",
    "lfm2": "lfm",
    "olmo3": "olmo",
    "mistral_old": "mistral",
    "mistral_v11": "mistral",
    "deepseek_v3": "deepseek",
    "deepseek_v31": "deepseek",
    "deepseek_v32": "deepseek",
    "kimi_k2": "kimi",
    "kimi_k3": "kimi",
    "solar_open": "solar",
    "glm45": "glm",
    "glm47": "glm",
    "hy_v3": "hunyuan",
    "harmony": "harmony",
    "granite": "granite",
    "granite_20b_fc": "granite",
    "phi4_mini": "phi",
    "internlm": "internlm",
    "jamba": "jamba",
    "hunyuan": "hunyuan",
    "nemotron": "nemotron",
    "xlam": "xlam",
    "minimax_m2": "minimax",
    "minimax_m3": "minimax",
    "step3": "step",
    "functiongemma": "gemma",
    "gemma4": "gemma",
    "cohere_command3": "cohere",
    "cohere_command4": "cohere",
    "gigachat3": "gigachat",
    "apertus": "apertus",
    "functionary_v31": "functionary",
    "functionary_v32": "functionary",
    "command_r": "cohere",
    "dots": "dots",
    "gigachat35": "gigachat",
    "inkling": "inkling",
    "k2_horizon": "k2_horizon",
    "mirothinker": "mirothinker",
    "muse_glimmer": "muse",
    "solar_open2": "solar",
    "deepseek_v4": "deepseek",
    "deepseek_v41": "deepseek",
    "hy_v4": "hunyuan",
    "iquest_q1": "iquest",
    "llm-jp-harmony": "llm_jp",
    "plamo3": "plamo",
    "beam": "beam",
    "react": "loose",
    "action_json": "loose",
    "function_call": "loose",
    "tool_code": "loose",
    "tool_tags": "loose",
}
_METHODS = ("render_tools", "render_choice", "render_calls", "render_results", "parser", "constraint")


@functools.cache
def _built_in() -> dict[str, str]:
    """Name and lineage of each built-in format but `auto`."""
    known = set(_LINEAGES.values())
    return _LINEAGES | {name: name for name in markup.lineages() if name not in known}


def names() -> list[str]:
    """All names that `get` knows: the built-in ones, then those of installed packages. Imports no family."""
    known = ["auto", *_built_in()]
    return [*known, *sorted(set(_installed()) - set(known))]


@functools.cache
def get(name: str) -> ToolFormat:
    """The format of this name, or of a place in a module of the operator's: `package.module:FAMILY`.

    Raises FormatError, which says what there is. Importing a module runs it: no request may give such a place.
    """
    if name == "auto":
        return _auto()
    if name in _built_in():
        found: ToolFormat = next(family for family in markup.lineage(_built_in()[name]) if family.name == name)
        return found
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


@functools.cache
def _auto() -> ToolFormat:
    from .auto import Auto  # it imports the table of models, and all families when it is made

    return Auto(get("json"), writing=_writing)


@functools.cache
def _writing(name: str, prompt: str = "") -> ToolFormat:
    """`auto` for the models of the family `name`. prompt: the format that writes, if not the one the family wants."""
    from .auto import Auto

    family = get(name)
    return Auto(get(prompt or getattr(family, "auto_prompt", "") or name), family, _writing)


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
    name tells none as the checkpoint's template does (the setting `template`). Formats that know nothing of models are
    what they are.
    """
    if name == TEMPLATE:
        return _derived(template)
    if name == "auto" and template is not None:
        from . import models
        from .template import sources

        derived = sources.derived(template, model) if models.family(model) is None else None
        if derived is not None and derived.family is not None:
            return _auto_of(derived, derived.family)
    fmt = get(name)
    choose = getattr(fmt, "for_model", None)
    if choose is None:
        return fmt
    chosen: ToolFormat = choose(model)
    return chosen


def prompt_name(fmt: ToolFormat) -> str:
    """The name of the format in which `fmt` writes the prompt: `auto` reads all formats and writes as one of them."""
    return str(getattr(fmt, "prompt_name", fmt.name))


def of_template(name: str, template: str | None, model: str = "") -> ToolFormat:
    """The format of this name for a text that was written before: with a template (the setting) `auto` reads what that
    says too. model: its name, where that is known. Raises FormatError and SettingsError.
    """
    return get(name) if template is None else for_model(name, model, template)


def _derived(template: str | None) -> ToolFormat:
    from .template import sources

    return sources.required(template)


@functools.lru_cache(maxsize=64)
def _auto_of(derived: Derived, family: ToolFormat) -> ToolFormat:
    """`auto` that writes as a derived family does, and reads its calls too: with its own reader where those of the
    built-in families make something else of them.
    """
    from . import reading
    from .auto import Auto, all_openers
    from .syntax.round_trip import reads

    openers = (*all_openers(), *reading.ANY_JSON)
    own_first = not all(reads(openers, turn) for turn in derived.proofs)

    def writing(_name: str, prompt: str = "") -> ToolFormat:
        return Auto(get(prompt) if prompt else family, family, own_first=own_first)

    return Auto(family, family, writing, own_first=own_first)


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
    """A format is an object; a class is called without arguments to get one. Its markup is told to all readers."""
    made: ToolFormat = found() if isinstance(found, type) else found
    if isinstance(own := getattr(made, "markup", None), markup.Markup):
        markup.add(own)
    return made


@functools.cache
def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # it brings the email package, which nobody else asks for

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


@functools.cache
def plain() -> ToolFormat:
    """No syntax at all: for requests that offer nothing. Reasoning is still told from text."""
    from .plain import Plain

    return Plain()
