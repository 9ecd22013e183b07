"""Where a checkpoint's templates are: a folder, a file, Hugging Face's cache, what a llama.cpp server tells of itself.

Nothing is downloaded. What a server's `/props` said is handed in by whoever asked it (`remember`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import SettingsError
from ...usage.tokenizers.chat_template import for_tools, read_json, read_text, special_tokens, template_source
from ...usage.tokenizers.vocabularies import hub_cache, in_hub_cache
from .render import ChatTemplate

SETTING = "template"
CACHE = "cache"
"""The source that is Hugging Face's cache, by the name of the model that each request asks for."""
PROPS = "props"
"""The source that is the upstream's `/props`."""
_PROPS_READ = ("chat_template_tool_use", "chat_template", "bos_token", "eos_token")
_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_props: dict[str, tuple[str, Any]] = {}
"""Addresses of servers, with the URL and the value of their `/props`."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says of its conversations."""

    template: ChatTemplate
    engine_begins: bool = False
    """Its engine puts the token of the beginning before every prompt, so that none may hold it."""
    special_tokens: tuple[str, ...] = ()
    """What its tokenizer's configuration and the template's text show of special tokens."""
    response_template: Mapping[str, Any] | None = None
    """What Transformers reads an answer with (since 5.13), as the checkpoint's tokenizer_config.json has it."""


def find(source: str) -> Checkpoint:
    """The checkpoint of a setting: a path, or a model's name in the cache.

    Raises SettingsError where there is none or its files cannot be read.
    """
    if source in _props:
        return of_props(*_props[source])
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


def of_props(url: str, props: Any) -> Checkpoint:
    """The checkpoint that a llama.cpp server serves, by its `/props`. Raises SettingsError."""
    told = props if isinstance(props, Mapping) else {}
    text = told.get("chat_template_tool_use") or told.get("chat_template")
    if not isinstance(text, str) or not text:
        raise SettingsError(f"{SETTING}: {url} tells no chat_template.")
    special = {name: told[name] for name in ("bos_token", "eos_token") if isinstance(told.get(name), str)}
    return Checkpoint(ChatTemplate(text, special), engine_begins=True, special_tokens=_special(text, special))


def remember(source: str, url: str, props: Any) -> None:
    """Has `find` give the checkpoint that the server at `source` serves, by its `/props`. Raises SettingsError."""
    of_props(url, props)
    _props[source] = url, {name: props[name] for name in _PROPS_READ if name in props}


def _of_folder(folder: Path) -> Checkpoint:
    config = read_json(folder / "tokenizer_config.json", SETTING)
    text = template_source(folder, SETTING)
    if text is None:
        raise SettingsError(f"{SETTING}: {folder} holds no chat template ({', '.join(_FILES)}).")
    return _checkpoint(text, config)


def _of_file(file: Path) -> Checkpoint:
    if file.suffix != ".json":
        config = read_json(file.parent / "tokenizer_config.json", SETTING)
        return _checkpoint(read_text(file, SETTING), config)
    value = read_json(file, SETTING)
    text = for_tools(value.get("chat_template"))
    if text is None:
        raise SettingsError(f"{SETTING}: {file} holds no chat_template.")
    config = value if file.name == "tokenizer_config.json" else read_json(file.parent / _FILES[2], SETTING)
    return _checkpoint(text, config)


def _checkpoint(text: str, config: Mapping[str, Any]) -> Checkpoint:
    declared = config.get("response_template")
    if isinstance(declared, str):
        try:
            declared = json.loads(declared)
        except (ValueError, RecursionError):
            declared = None
    return Checkpoint(
        ChatTemplate(text, special_tokens(config)),
        special_tokens=_special(text, special_tokens(config), config.get("added_tokens_decoder")),
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
