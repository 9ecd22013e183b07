"""`toolcall-middleware launch AGENT`: the proxy and a coding agent in one command.

The proxy runs in this process, on a free port of loopback whose key only the agent has. The agent is configured by
variables and, where it needs a file, by one in a temporary folder: no file of the user's is written.
"""

from __future__ import annotations

import argparse

from ..command import Command, add_settings, add_style, add_upstream

_AGENTS = ("claude", "codex", "opencode", "qwen", "continue", "cline", "env")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT", choices=_AGENTS, help=", ".join(_AGENTS))
    add_upstream(parser)
    parser.add_argument("--model", metavar="NAME", help="the model to use (default: the first that is listed)")
    add_style(parser, mode="auto")
    add_settings(parser)


def _run(args: argparse.Namespace) -> int:
    from .run import run

    return run(args)


COMMAND = Command(
    name="launch",
    help="start a coding agent on your own model, with the proxy in between",
    configure=_configure,
    run=_run,
    description="Starts the proxy on a free loopback port and the agent on it, and ends with the agent. Nothing is"
    " written into your own configuration of the agent. `env` prints the variables for any other program, or runs"
    " the command after -- with them.",
    examples=(
        "toolcall-middleware launch opencode --upstream http://127.0.0.1:8000/v1",
        "toolcall-middleware launch claude --upstream http://127.0.0.1:8000/v1 --model Qwen/Qwen3-8B",
        'toolcall-middleware launch qwen --upstream http://127.0.0.1:8080/v1 -- -p "What does this repository do?"',
        "toolcall-middleware launch env --upstream http://127.0.0.1:8000/v1 -- python my_agent.py",
    ),
    exit_codes={0: "the agent's own code, whatever it is", 127: "the agent is not installed"},
    order=20,
    takes_rest=True,
)
