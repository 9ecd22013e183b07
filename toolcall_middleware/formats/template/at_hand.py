"""The derived families that settings ask for, each derived once."""

from __future__ import annotations

import functools
import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import FormatError, SettingsError
from .. import markup
from ..family import Family
from ..prompt import escaping
from . import derive, response_template, sources
from .derive import Derived
from .prompts import TemplatePrompts

if TYPE_CHECKING:
    from ...settings import Settings

CHAT = "/chat/completions"
"""What paths end in beside which a backend has `/completions`."""

_log = logging.getLogger(__name__)


def derived(source: str, model: str) -> Derived | None:
    """What is derived from the template at `source` (the setting), None where it is not there. Where no family can be
    derived the log says why, once.

    model: the name that a request asks for, which is looked for where `source` is the cache.
    """
    place = _place(source, model)
    return None if place is None else _logged(place)


def of_props(model: str, props: object) -> str:
    """Derive from the template in a llama.cpp server's `/props`. The name under which `derived` knows it then; empty
    where there is no template, or none that says how calls are written.
    """
    place = f"/props of {model}"
    try:
        checkpoint = sources.of_props(place, props)
    except SettingsError:
        return ""
    source = checkpoint.template.source.encode("utf-8", "surrogatepass")
    name = f"{sources.PROPS}:{hashlib.sha256(source).hexdigest()[:12]}"
    sources.remember(name, place, props)
    return name if _logged(name).family is not None else ""


def prompts_for(source: str, model: str) -> TemplatePrompts | None:
    """What writes prompts by the template at `source` (the setting); None where the cache has none of this model.

    Raises FormatError and SettingsError as `of_source` does.
    """
    place = _place(source, model)
    return None if place is None else _prompts(place)


def _place(source: str, model: str) -> str | None:
    return sources.in_cache(model) if source == sources.CACHE else source


@functools.lru_cache(maxsize=16)  # each may have processes
def _prompts(source: str) -> TemplatePrompts:
    checkpoint = sources.find(source)
    escaping.add_tokens(checkpoint.special_tokens)
    return TemplatePrompts(checkpoint)


def check_send(settings: Settings) -> None:
    """Raises SettingsError where `send=completions` cannot be done, as far as that can be known before a request."""
    if settings.send != "completions":
        return
    where = settings.where("send")
    if settings.template is None:
        raise SettingsError(f"{where}: completions needs a chat template: say where it is with the setting template.")
    if settings.mode == "native":
        raise SettingsError(f"{where}: completions is for prompts, and mode=native gives the tools to the backend.")
    if settings.upstream_api != "openai":
        raise SettingsError(f"{where}: completions cannot be had of upstream_api={settings.upstream_api}.")
    if odd := next((path for path in settings.paths if not path.endswith(CHAT)), None):
        raise SettingsError(f"{where}: completions is asked beside {CHAT}, and paths holds {odd}.")
    if settings.template not in {sources.CACHE, sources.PROPS}:
        try:
            manner = _prompts(settings.template).manner
            if not (manner.plain or manner.tools):
                raise SettingsError(f"{where}: the chat template of {settings.template} renders no conversation.")
            if not manner.tools:
                _log.warning("template: %s presents no tools: the prompt says them in text.", settings.template)
        except FormatError as error:
            raise SettingsError(f"{where}: {error}") from None


def of_source(source: str) -> Derived:
    """What is derived from a source. Raises FormatError or SettingsError."""
    checkpoint = sources.find(source)
    escaping.add_tokens(checkpoint.special_tokens)
    if checkpoint.response_template is None:
        return derive.derive(checkpoint.template)
    try:
        return derive.derive(checkpoint.template, declared=response_template.compiled(checkpoint.response_template))
    except response_template.NotCompiled as error:
        found = derive.derive(checkpoint.template)
        return replace(found, unknown=(*found.unknown, f"{response_template.DECLARATION} is not used: {error}"))


def required(source: str | None) -> Family:
    """The family that `format=template` means. Raises FormatError, or SettingsError of its source."""
    if source is None or source == sources.CACHE:
        raise FormatError(
            "template is the format of a checkpoint's own template: say where that is with the setting `template` (a "
            "folder, a file, or a model's name in Hugging Face's cache)"
        )
    found = _kept(source)
    if found.family is None:
        raise FormatError(f"template: {source}: no family can be derived: {found.why}")
    return found.family


@functools.lru_cache(maxsize=64)
def _kept(source: str) -> Derived:
    found = of_source(source)
    if found.family is not None:
        markup.add(found.family.markup)  # all readers know its markers, and nothing that a tool says can hold them
    for each in found.unknown:
        if response_template.DECLARATION in each:
            _log.warning("template: %s: %s", source, each)
    return found


@functools.lru_cache(maxsize=64)
def _logged(source: str) -> Derived:
    try:
        found = _kept(source)
    except (FormatError, SettingsError) as error:
        found = Derived(family=None, why=str(error))
    if found.family is None:
        _log.warning("template: %s: no family is derived, calls are written as json: %s", source, found.why)
    else:
        _log.info("template: %s: %s (%s)", source, found.kind, found.confidence)
    return found


def forget() -> None:
    """Derive anew: a source has changed."""
    _kept.cache_clear()
    _logged.cache_clear()
    _prompts.cache_clear()
