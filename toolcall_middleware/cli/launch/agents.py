"""The agents: how each is named, installed, and configured with the address of the model.

Each `setup` returns variables and arguments, and may write into the temporary folder that it is given. The agents' own
documentation explains the variables; each was tried with the release that is named beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PROVIDER = "toolcall"
# What an agent may let a model write in one answer where nothing is known of the model.
_OUTPUT = 8192
_CONTEXT = 32_768


@dataclass(frozen=True, slots=True)
class Place:
    """Where the model is: what an agent has to know."""

    root: str
    """The proxy's address without `/v1`."""
    key: str
    model: str
    context: int | None
    """Tokens of prompt and answer together, where the backend says it."""
    folder: Path
    """A temporary folder of this launch."""

    @property
    def base(self) -> str:
        """The address as OpenAI's clients want it."""
        return f"{self.root}/v1"

    @property
    def output(self) -> int:
        """Tokens of one answer: a quarter of the context, because the agents' own default may be all of it."""
        return min(_OUTPUT, (self.context or 4 * _OUTPUT) // 4)


@dataclass(frozen=True, slots=True)
class Setup:
    """The variables and arguments of an agent. `arguments` precede the user's own."""

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Variables of the user that would lead the agent elsewhere."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent."""

    program: str
    package: str
    """Its name for `npm install -g`."""
    setup: Callable[[Place], Setup]


def _claude(place: Place) -> Setup:
    """Claude Code 2.1: the address without `/v1`; a bearer token, so that no login of the user's is taken."""
    models = dict.fromkeys(
        (
            "ANTHROPIC_MODEL",
            "ANTHROPIC_SMALL_FAST_MODEL",
            "ANTHROPIC_DEFAULT_OPUS_MODEL",
            "ANTHROPIC_DEFAULT_SONNET_MODEL",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL",
            "CLAUDE_CODE_SUBAGENT_MODEL",
        ),
        place.model,
    )
    environment = {
        "ANTHROPIC_BASE_URL": place.root,
        "ANTHROPIC_AUTH_TOKEN": place.key,
        **models,
        # Its first system block changes between requests, and with it the prefix that a backend has cached.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        # It asks for 32,000 tokens of any model, more than many have.
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(place.output),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    if place.context is not None:  # it takes an unknown model's window for 1,000,000
        environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(place.context)
    return Setup(environment, without=("ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"))


def _codex(place: Place) -> Setup:
    """Codex 0.169, which speaks Responses only: a home of its own with one provider."""
    home = place.folder / "codex"
    home.mkdir()
    lines = [
        f"model = {_toml(place.model)}",
        f'model_provider = "{_PROVIDER}"',
        f"model_context_window = {place.context or _CONTEXT}",
        "",
        f"[model_providers.{_PROVIDER}]",
        'name = "toolcall-middleware"',
        f"base_url = {_toml(place.base)}",
        'env_key = "OPENAI_API_KEY"',
        'wire_api = "responses"',
    ]
    (home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Setup({"CODEX_HOME": str(home), "OPENAI_API_KEY": place.key})


def _opencode(place: Place) -> Setup:
    """The setup of opencode 1.18, which reads a configuration from a variable that overrides the user's files."""
    limit = {"context": place.context or _CONTEXT, "output": place.output}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "toolcall-middleware",
        "options": {"baseURL": place.base, "apiKey": place.key},
        "models": {place.model: {"name": place.model, "tool_call": True, "limit": limit}},
    }
    model = f"{_PROVIDER}/{place.model}"
    config = {"provider": {_PROVIDER: provider}, "model": model, "small_model": model, "autoupdate": False}
    return Setup({"OPENCODE_CONFIG_CONTENT": json.dumps(config)})


def _qwen(place: Place) -> Setup:
    """Qwen Code 0.15: variables; the way to log in is an argument, over the one in its settings."""
    environment = {"OPENAI_API_KEY": place.key, "OPENAI_BASE_URL": place.base, "OPENAI_MODEL": place.model}
    return Setup(environment, ("--auth-type", "openai", f"--model={place.model}"))


def _continue(place: Place) -> Setup:
    """Continue's `cn` 1.5: a file of one model. YAML, of which JSON is a part."""
    model: dict[str, Any] = {
        "name": place.model,
        "provider": "openai",
        "model": place.model,
        "apiBase": place.base,
        "apiKey": place.key,
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use"],
        "defaultCompletionOptions": {"contextLength": place.context or _CONTEXT, "maxTokens": place.output},
    }
    file = place.folder / "continue.yaml"
    config = {"name": "toolcall-middleware", "version": "1.0.0", "schema": "v1", "models": [model]}
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
    return Setup(arguments=("--config", str(file)))


def _cline(place: Place) -> Setup:
    """Cline's command line 3.0: a folder of data with one provider."""
    settings = place.folder / "cline" / "settings"
    settings.mkdir(parents=True)
    provider = {
        "provider": "openai-compatible",
        "apiKey": place.key,
        "model": place.model,
        "baseUrl": place.base,
    }
    listed = {"settings": provider, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    config = {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {"openai-compatible": listed},
    }
    (settings / "providers.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    environment = {
        "CLINE_DATA_DIR": str(settings.parent),
        # Else it starts a daemon that outlives it, and the temporary folder.
        "CLINE_SESSION_BACKEND_MODE": "local",
    }
    return Setup(environment, ("-P", "openai-compatible", f"--model={place.model}"))


def variables(place: Place) -> dict[str, str]:
    """What most programs read: those of OpenAI's and Anthropic's SDKs, and their usual name for a model."""
    return {
        "OPENAI_BASE_URL": place.base,
        "OPENAI_API_KEY": place.key,
        "OPENAI_MODEL": place.model,
        "ANTHROPIC_BASE_URL": place.root,
        "ANTHROPIC_AUTH_TOKEN": place.key,
        "ANTHROPIC_MODEL": place.model,
    }


def _toml(text: str) -> str:
    """A TOML basic string. JSON's escapes are a part of TOML's, except for halves of a surrogate pair."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


AGENTS: Mapping[str, Agent] = {
    "claude": Agent("claude", "@anthropic-ai/claude-code", _claude),
    "codex": Agent("codex", "@openai/codex", _codex),
    "opencode": Agent("opencode", "opencode-ai", _opencode),
    "qwen": Agent("qwen", "@qwen-code/qwen-code", _qwen),
    "continue": Agent("cn", "@continuedev/cli", _continue),
    "cline": Agent("cline", "cline", _cline),
}
