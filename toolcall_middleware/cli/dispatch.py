"""Finds the commands, runs the requested one, and reports a user's mistake in one line."""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import os
import pkgutil
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..errors import FormatError, SettingsError
from ..settings import ENV_PREFIX, OPTIONS
from .command import PROG, WIDTH, Command, UsageError

_USAGE_ERROR = 2  # argparse's own
_OUTPUT_LOST = 1
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# The exit code that shells give a process that SIGINT (2) ended.
_INTERRUPTED = 128 + 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code: the command's own, 2 for a mistake, 130 after Ctrl-C."""
    if sys.stdout is None:  # the shell started this process with its standard output closed (`>&-`)
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    arguments, rest = _split(sys.argv[1:] if argv is None else list(argv))
    parser = build_parser()
    if not arguments:
        parser.print_help()
        return 0
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        own: argparse.ArgumentParser = args.parser
        options = re.findall(r"--[\w-]+", own.format_usage())
        word = unknown[0].partition("=")[0]
        hint = _as_setting(word, options) or _meant(word, options)
        if args.command.takes_rest and not hint:
            given = shlex.join([*(one for one in arguments if one not in unknown), "--", *unknown])
            hint = f"; arguments for the started program go after --: {PROG} {given}"
        own.error(f"{' '.join(unknown)}: unknown{hint}")
    args.rest = rest
    command: Command = args.command
    try:
        code = command.run(args)
        sys.stdout.flush()
    except (SettingsError, FormatError, UsageError) as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return _USAGE_ERROR
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # a closed pipe, as in `… | head`, is no error
            if error.errno not in _NO_ROOM:
                raise
            print(f"{PROG}: the output cannot be written: {error.strerror}", file=sys.stderr)
        # The rest of the buffer must not fail again when Python flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _OUTPUT_LOST
    except KeyboardInterrupt:
        print(f"\n{PROG}: stopped.", file=sys.stderr)
        return _INTERRUPTED
    return code


def commands() -> dict[str, Command]:
    """The commands by name, in the order of the help: what each module of this folder calls `COMMAND`.

    A name with an underscore in front is a helper's: it may import what a command loads late.
    """
    package = __name__.rpartition(".")[0]
    names = (found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]))
    modules = [importlib.import_module(f"{package}.{name}") for name in names if not name.startswith("_")]
    found = [module.COMMAND for module in modules if isinstance(getattr(module, "COMMAND", None), Command)]
    return {command.name: command for command in sorted(found, key=lambda command: (command.order, command.name))}


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. Parsing sets `command`, the Command that was asked for."""
    parser = _Parser(
        prog=PROG,
        description="OpenAI-compatible tool calling for any chat-completions backend.",
        epilog=f"Every setting is also a variable {ENV_PREFIX}<NAME>; `{PROG} config` lists them.\n"
        f"`{PROG} COMMAND --help` has examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROG} {__version__}")
    listed = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in commands().values():
        one = listed.add_parser(
            command.name,
            help=command.help,
            description=textwrap.fill(command.description or f"{command.help[0].upper()}{command.help[1:]}.", WIDTH),
            epilog=command.epilog(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.set_defaults(command=command, parser=one)
        command.configure(one)
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into the command's own, and those after `--` where the command hands them on."""
    name = next((word for word in arguments if not word.startswith("-")), None)
    if "--" not in arguments or name is None or not getattr(commands().get(name), "takes_rest", False):
        return arguments, []
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


class _Parser(argparse.ArgumentParser):
    """Says what may have been meant: argparse does so by itself only from Python 3.14 on."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            what = "command" if action.option_strings == [] and action.metavar == "COMMAND" else "choice"
            raise argparse.ArgumentError(
                None if what == "command" else action,
                f"{value} is not a {what}{_meant(str(value), names) or '; known: ' + ', '.join(names)}",
            )

    def error(self, message: str) -> NoReturn:
        """One line, and where to read on."""
        print(f"{PROG}: {message}\nusage: {self.prog} --help", file=sys.stderr)
        raise SystemExit(_USAGE_ERROR)


def _as_setting(word: str, known: Sequence[str]) -> str:
    """A hint how to give a setting that was written as an option; empty where the word is not a setting."""
    name = word.lstrip("-").replace("-", "_").lower()
    return f"; it is a setting: --set {name}=VALUE" if name in OPTIONS and "--set" in known else ""


def _meant(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
