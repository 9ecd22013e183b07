"""Where chat templates are, and what is derived from each, once.

A template is in a checkpoint's folder, a file, Hugging Face's cache, or is shown by a llama.cpp server. Nothing is
downloaded. What a server's `/props` said is handed in by the caller that asked it (`remember`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import FormatError, SettingsError
from ...usage.tokenizers.chat_template import for_tools, read_json, read_text, special_tokens, template_source
from ...usage.tokenizers.vocabularies import hub_cache, in_hub_cache
from .. import markup
from ..family import Family
from ..prompt import escaping
from . import derive, response_template
from .derive import Derived
from .prompts import TemplatePrompts
from .render import ChatTemplate

if TYPE_CHECKING:
    from ...settings import Settings

SETTING = "template"
CACHE = "cache"
"""The source that is Hugging Face's cache, by the name of the model that each request asks for."""
PROPS = "props"
"""The source that is the upstream's `/props`."""
_PROPS_READ = ("chat_template_tool_use", "chat_template", "bos_token", "eos_token")
CHAT = "/chat/completions"
"""The end of a path for which a backend also has `/completions`."""

_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_log = logging.getLogger(__name__)
_props: dict[str, tuple[str, Any]] = {}
"""Addresses of servers, with the URL and the value of their `/props`."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says of its conversations."""

    template: ChatTemplate
    engine_begins: bool = False
    """Its engine puts the beginning-of-text token before every prompt, so a prompt must not hold it."""
    special_tokens: tuple[str, ...] = ()
    """What its tokenizer's configuration and the template's text show of special tokens."""
    response_template: Mapping[str, Any] | None = None
    """What Transformers reads an answer with (since 5.13), as the checkpoint's tokenizer_config.json has it."""


def find(source: str) -> Checkpoint:
    """The checkpoint of a setting: a path, or a model's name in the cache.

    Raises SettingsError where no checkpoint is found or its files cannot be read.
    """
    if source in _props:
        return served(*_props[source])
    if source == PROPS:
        raise SettingsError(
            f"{SETTING}: {PROPS} is for the proxy, which has an upstream to ask; give a path or a name."
        )
    path = Path(source).expanduser()
    if path.is_file():
        return _of_file(path)
    if not path.is_dir():
        found = next((each for file in _FILES if (each := in_hub_cache(source, file)) is not None), None)
        if found is None:
            raise SettingsError(
                f"{SETTING}: there is neither a path {source!r} nor a model of that name with a chat template in "
                f"{hub_cache()}, and nothing is downloaded."
            )
        path = found.parent
    return _of_folder(path)


def in_cache(model: str) -> str | None:
    """The model's name where its checkpoint is in the cache, None where it is not. Never a path of a client's."""
    return model if any(in_hub_cache(model, file) is not None for file in _FILES) else None


def served(url: str, props: Any) -> Checkpoint:
    """The checkpoint that a llama.cpp server serves, by its `/props`. Raises SettingsError."""
    fields = props if isinstance(props, Mapping) else {}
    text = fields.get("chat_template_tool_use") or fields.get("chat_template")
    if not isinstance(text, str) or not text:
        raise SettingsError(f"{SETTING}: {url} tells no chat_template.")
    special = {name: fields[name] for name in ("bos_token", "eos_token") if isinstance(fields.get(name), str)}
    return Checkpoint(ChatTemplate(text, special), engine_begins=True, special_tokens=_special(text, special))


def remember(source: str, url: str, props: Any) -> None:
    """Has `find` give the checkpoint that the server at `source` serves, by its `/props`. Raises SettingsError."""
    served(url, props)
    _props[source] = url, {name: props[name] for name in _PROPS_READ if name in props}


def _of_folder(folder: Path) -> Checkpoint:
    text = template_source(folder, SETTING)
    if text is None:
        raise SettingsError(f"{SETTING}: {folder} holds no chat template ({', '.join(_FILES)}).")
    return _checkpoint(text, folder)


def _of_file(file: Path) -> Checkpoint:
    is_json = file.suffix == ".json"
    text = for_tools(read_json(file, SETTING).get("chat_template")) if is_json else read_text(file, SETTING)
    if text is None:
        raise SettingsError(f"{SETTING}: {file} holds no chat_template.")
    return _checkpoint(text, file.parent)


def _checkpoint(text: str, folder: Path) -> Checkpoint:
    config = read_json(folder / _FILES[2], SETTING)
    special, declared = special_tokens(config), config.get("response_template")
    if isinstance(declared, str):
        with contextlib.suppress(ValueError, RecursionError):
            declared = json.loads(declared)
    return Checkpoint(
        ChatTemplate(text, special),
        special_tokens=_special(text, special, config.get("added_tokens_decoder")),
        response_template=declared if isinstance(declared, Mapping) else None,
    )


# A tag, or words in brackets that no list or index of Jinja has.
_MARKER = re.compile(r"</?[^\s<>{}/=\"'%][^\s<>{}=\"'%]{1,62}>|\[(?=[|/A-Z])/?\|?[A-Za-z_]{2,62}\|?\]")


def _special(text: str, named: Mapping[str, str], added: Any = None) -> tuple[str, ...]:
    """The special tokens that a template's text, the names in its configuration and its added tokens show."""
    entries = added.values() if isinstance(added, Mapping) else ()
    special = [each.get("content") for each in entries if isinstance(each, Mapping) and each.get("special") is True]
    found = (*named.values(), *special, *_MARKER.findall(text))
    return tuple(dict.fromkeys(token for token in found if isinstance(token, str)))


# -- what is derived --------------------------------------------------------------------------------------------------


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
        checkpoint = served(place, props)
    except SettingsError:
        return ""
    source = checkpoint.template.source.encode("utf-8", "surrogatepass")
    name = f"{PROPS}:{hashlib.sha256(source).hexdigest()[:12]}"
    remember(name, place, props)
    return name if _logged(name).family is not None else ""


def prompts_for(source: str, model: str) -> TemplatePrompts | None:
    """What writes prompts by the template at `source` (the setting); None where the cache has none of this model.

    Raises FormatError and SettingsError as `of_source` does.
    """
    place = _place(source, model)
    return None if place is None else _prompts(place)


def _place(source: str, model: str) -> str | None:
    return in_cache(model) if source == CACHE else source


@functools.lru_cache(maxsize=16)  # each may have processes
def _prompts(source: str) -> TemplatePrompts:
    checkpoint = find(source)
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
    if settings.template not in {CACHE, PROPS}:
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
    checkpoint = find(source)
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
    if source is None or source == CACHE:
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
        markup.add(found.family.markup)  # all readers know its markers, and no tool result can hold them
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
