"""`toolcall-middleware demo`: the main job, played for real and checked."""

from __future__ import annotations

import argparse

from ..command import Command


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=("scripted", "local"), help="one part: the scripted model or the real one")
    parser.add_argument("--plain", action="store_true", help="no colours and no tables, also in a terminal")


def _run(args: argparse.Namespace) -> int:
    from .play import run

    return run(only=args.only, plain=args.plain)


COMMAND = Command(
    name="demo",
    help="show the main job at work",
    configure=_configure,
    run=_run,
    description="Plays tool calls on a real small model (where it is installed) and on a scripted one, and checks"
    " them.",
    examples=(
        "toolcall-middleware demo",
        "toolcall-middleware demo --only scripted      # needs no model and takes two seconds",
    ),
    exit_codes={0: "all checks came out right", 1: "one did not", 2: "the model that was asked for is not installed"},
    order=30,
)
