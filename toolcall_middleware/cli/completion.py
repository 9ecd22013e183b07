"""`toolcall-middleware completion SHELL`: what makes a shell complete commands and options."""

from __future__ import annotations

import argparse

from .command import Command

_SHELLS = ("bash", "zsh")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))


def _run(args: argparse.Namespace) -> int:
    import shtab

    from .dispatch import build_parser

    print(shtab.complete(build_parser(), shell=args.shell))
    return 0


COMMAND = Command(
    name="completion",
    help="print what makes your shell complete commands and options",
    configure=_configure,
    run=_run,
    description="Prints a completion script for your shell.",
    examples=(
        "toolcall-middleware completion bash > ~/.local/share/bash-completion/completions/toolcall-middleware",
        "toolcall-middleware completion zsh > ~/.zfunc/_toolcall-middleware",
    ),
    order=90,
)
