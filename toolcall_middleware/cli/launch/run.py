"""One launch from its arguments to the agent's exit code."""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ... import create_proxy
from ...errors import SettingsError
from ...formats import registry
from ...settings import ENV_PREFIX, Settings
from ...settings.settings import meant
from .._probe import Backend, describe, look
from .._serving import serving
from ..command import PROG, UsageError, given_settings, many, to_environment, upstream_of
from . import terminal
from .agents import AGENTS, Place, Setup, variables
from .tally import Tally

_NOT_INSTALLED = 127
_CANNOT_RUN = 126
_PATIENCE = 20.0
"""Seconds for the backend to list its models: without a model no agent can start."""
_MOST_ALIASES = 64
_MOST = 50  # models in a message
# What has a meaning in a list of aliases.
_PATTERN = frozenset("*?[],=")


def run(args: argparse.Namespace) -> int:
    """The command. Raises UsageError, SettingsError or FormatError for what cannot be."""
    agent = AGENTS.get(args.agent)
    program = None
    if agent is not None:
        program = shutil.which(agent.program)
        if program is None:
            _say(f"{args.agent} is not installed ({agent.program} is not on PATH): npm install -g {agent.package}")
            return _NOT_INSTALLED
    values = given_settings(args)
    settings = Settings.from_env(**values)
    if settings.upstreams_file is not None:
        raise UsageError("launch takes one upstream: give --upstream URL.")
    backend = _ask(settings)
    model = _model(args.model, settings, backend)
    key = f"launch-{secrets.token_urlsafe(24)}"
    values |= _own_settings(settings, backend, model, key)
    registry.of_settings(Settings.from_env(**values))
    mine = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    to_environment(values)
    tally = Tally(create_proxy())
    with (
        tally.logging(),
        tempfile.TemporaryDirectory(prefix="toolcall-launch-") as folder,
        serving(tally) as root,
    ):
        place = Place(root, key, model, backend.context.get(model), Path(folder))
        shown = describe(upstream_of(settings), settings.upstream_api, backend if backend.models else None)
        _say(f"{args.agent} -> {root} -> {shown}; model {model}")
        if agent is None:
            code = _env(place, mine, args.rest)
        else:
            setup = agent.setup(place)
            code = _run([str(program), *setup.arguments, *args.rest], _environment(setup, mine))
    for line in tally.lines(calls_are_read=settings.mode != "off"):
        _say(line)
    if settings.mode != "off" and tally.answers and not tally.calls:
        asked = f"{PROG} check --upstream {upstream_of(settings) or settings.upstream_api} --model {model}"
        _say(f"{model} called no tool in {many(tally.answers, 'answer')}. To see what it can do: {asked}")
    return code


def _say(text: str) -> None:
    print(f"{PROG}: {text}", file=sys.stderr, flush=True)


def _ask(settings: Settings) -> Backend:
    """What the backend is. Raises SettingsError where it is not there at all: no agent could do anything."""
    if settings.upstream_api != "openai":
        return Backend()
    if settings.upstream_url is None:
        raise SettingsError(f"There is no upstream: give --upstream URL or set {ENV_PREFIX}UPSTREAM_URL.")
    return look(settings.upstream_url, settings.upstream_key, seconds=_PATIENCE)


def _model(wanted: str | None, settings: Settings, backend: Backend) -> str:
    if wanted is not None:
        known = backend.models
        # A server may take a name without the tag that it lists, and aliases are names of the user's own.
        if known and not {wanted, f"{wanted}:latest"} & {*known} and not settings.by_hand("model_aliases"):
            raise UsageError(
                f"--model {wanted}: {upstream_of(settings)} does not list it; {meant(wanted, known[:_MOST])}"
            )
        return wanted
    # An agent may take a name that begins with a dash for an option of its own.
    named = next((name for name in backend.models if not name.startswith("-")), None)
    if named is not None:
        return named
    why = f" ({backend.fault})" if backend.fault else ""
    raise UsageError(f"{upstream_of(settings) or settings.upstream_api} does not say which models it has{why}; "
                     "give --model NAME.")  # fmt: skip


def _own_settings(settings: Settings, backend: Backend, model: str, key: str) -> dict[str, str]:
    """The settings of a launch: its key, and, where the user set none, the mode and the model aliases."""
    own = {"api_keys": key, "access_log": "off"}
    if not settings.by_hand("mode") and settings.upstream_api == "openai":
        own["mode"] = "auto"
    # Agents send small tasks to their maker's models whatever their configuration: all unknown names get `model`.
    if not settings.by_hand("model_aliases"):
        plain = [name for name in backend.models[:_MOST_ALIASES] if not set(name) & _PATTERN]
        own["model_aliases"] = ",".join([*(f"{name}={name}" for name in plain), f"*={model}"])
    return own


def _environment(setup: Setup, mine: Mapping[str, str]) -> dict[str, str]:
    """The user's own, without the proxy's settings (they hold the upstream's key), and with what leads here."""
    kept = {name: value for name, value in mine.items() if name not in setup.without}
    # The agent must reach this machine directly, not through an HTTP proxy of the user's.
    loopback = {name: ",".join(filter(None, (mine.get(name), "127.0.0.1"))) for name in ("no_proxy", "NO_PROXY")}
    return {**kept, **loopback, **setup.environment}


def _env(place: Place, mine: Mapping[str, str], rest: list[str]) -> int:
    """Runs a command with the variables, or prints them and serves until a signal comes."""
    given = variables(place)
    if rest:
        return _run(rest, _environment(Setup(given), mine))
    for name, value in given.items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    return terminal.wait(lambda: _say("serving until Ctrl-C"))


def _run(command: list[str], environment: Mapping[str, str]) -> int:
    try:
        return terminal.run(command, environment)
    except FileNotFoundError:
        _say(f"{command[0]}: there is no such program")
        return _NOT_INSTALLED
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        return _CANNOT_RUN
