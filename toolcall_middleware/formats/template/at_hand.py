"""The derived families that settings ask for, each derived once."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace

from ...errors import FormatError, SettingsError
from .. import markup
from ..family import Family
from . import derive, response_template, sources
from .derive import Derived

_log = logging.getLogger(__name__)


def derived(source: str, model: str) -> Derived | None:
    """What is derived from the template at `source` (the setting), None where it is not there. Where no family can be
    derived the log says why, once.

    model: the name that a request asks for, which is looked for where `source` is the cache.
    """
    if source == sources.CACHE:
        name = sources.in_cache(model)
        return None if name is None else _logged(name)
    return _logged(source)


def of_source(source: str) -> Derived:
    """What is derived from a source. Raises FormatError or SettingsError."""
    checkpoint = sources.find(source)
    if checkpoint.response_template is None:
        return derive.derive(checkpoint.template)
    spec = checkpoint.response_template
    try:
        declared = derive.Declared(response_template.compile_calls(spec), response_template.compile_reasoning(spec))
    except response_template.NotCompiled as error:
        found = derive.derive(checkpoint.template)
        return replace(found, unknown=(*found.unknown, f"the checkpoint's response_template: {error}"))
    return derive.derive(checkpoint.template, declared=declared)


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
