"""A model's chat template, to count what it adds to the messages. Rendered in jinja2's sandbox, as engines do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import SettingsError
from ...installed import install_command
from ...settings.toml_text import read_file
from .base import Prompt, TemplateError
from .template_worker import compiled

_MAX_BYTES = 4 << 20


class ChatTemplate:
    """A template and the special tokens that it may name. `source` is Jinja. Raises SettingsError for a broken one."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        try:
            import jinja2

            self._template = compiled(source, immutable=True)
        except ImportError:
            message = f"tokenizer: the chat template needs jinja2: {install_command('hf')}."
            raise SettingsError(message) from None
        except jinja2.TemplateError as error:
            raise SettingsError(f"tokenizer: the chat template cannot be read: {error}.") from None
        # What a template does wrong with messages that it does not expect, in Python's words or Jinja's.
        self._failures = (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
        self._special = dict(special)

    def render(self, prompt: Prompt) -> str:
        """The prompt's text. Raises TemplateError."""
        try:
            return self._template.render(
                {
                    **self._special,
                    **prompt.arguments,
                    "messages": [_opened(message) for message in prompt.messages],
                    "tools": prompt.tools or None,
                    "documents": None,
                    "add_generation_prompt": prompt.answer,
                }
            )
        except (*self._failures, RecursionError) as error:
            raise TemplateError(str(error)) from None


def read_template(folder: Path) -> ChatTemplate | None:
    """The template in the folder of a tokenizer.json, or None. Raises SettingsError for a broken file."""
    source = template_source(folder, "tokenizer")
    if source is None:
        return None
    return ChatTemplate(source, special_tokens(read_json(folder / "tokenizer_config.json", "tokenizer")))


def template_source(folder: Path, setting: str) -> str | None:
    """The Jinja text of a checkpoint's template; None when it has none. Raises SettingsError, which names `setting`."""
    template: Any = None
    file = folder / "chat_template.jinja"
    if file.is_file():
        template = read_text(file, setting)
    if template is None:
        template = read_json(folder / "chat_template.json", setting).get("chat_template")
    if template is None:
        template = read_json(folder / "tokenizer_config.json", setting).get("chat_template")
    return for_tools(template)


def for_tools(template: Any) -> str | None:
    """The template of a file's value: of several by name the one for tools, which can do without them too."""
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("tool_use") or named.get("default")
    return template if isinstance(template, str) else None


def special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens of a tokenizer_config.json by their names there, such as `bos_token`."""
    found: dict[str, str] = {}
    for name, value in config.items():
        if name.endswith("_token"):
            text = value.get("content") if isinstance(value, dict) else value
            if isinstance(text, str):
                found[name] = text
    return found


def read_text(file: Path, setting: str) -> str:
    """A file of a checkpoint. Raises SettingsError."""
    try:
        return read_file(file, _MAX_BYTES)
    except ValueError as error:
        raise SettingsError(f"{setting}: {file} cannot be read: {error}.") from None


def read_json(file: Path, setting: str) -> dict[str, Any]:
    """A JSON file of a checkpoint; empty where the file is missing. Raises SettingsError."""
    if not file.is_file():
        return {}
    text = read_text(file, setting)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{setting}: {file} is not JSON: {error}.") from None
    return value if isinstance(value, dict) else {}


def _opened(message: dict[str, Any]) -> dict[str, Any]:
    """Arguments of calls as objects: templates are written for those."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_opened_call(call) for call in calls]}


def _opened_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call
