"""`toolcall-middleware demo`: the main job, played for real and checked."""

from __future__ import annotations

import argparse

from ..command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=("scripted", "local"), help="one part: the scripted model or the real one")
    parser.add_argument("--verify", action="store_true", help="print every exchange, and every check of it")
    parser.add_argument("--plain", action="store_true", help="no colours, also in a terminal")


def _run(args: argparse.Namespace) -> int:
    from .play import run

    return run(only=args.only, verify=args.verify, plain=args.plain)


COMMAND = Command(
    name="demo",
    help="show the main job at work",
    configure=_configure,
    run=_run,
    description="Plays tool calls on a real small model (where it is installed) and on a scripted one, and checks"
    " them: what the user asked, what the backend alone does, what the model wrote, what the client got.",
    examples=(
        "toolcall-middleware demo",
        "toolcall-middleware demo --verify             # all that is played, and what is checked of it",
        "toolcall-middleware demo --only scripted      # needs no model and takes two seconds",
    ),
    exit_codes={0: "all checks came out right", 1: "one did not", 2: "the model that was asked for is not installed"},
    order=30,
)
