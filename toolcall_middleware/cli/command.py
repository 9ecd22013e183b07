"""What a command is, and the arguments that several commands share.

A module of this folder with a `COMMAND` is a command: dispatch.py finds it. It imports what it needs in `run`, so that
`--help` stays quick.
"""

from __future__ import annotations

import argparse
import codecs
import os
import stat
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import on_one_line
from ..settings import COMMAND_LINE, ENV_PREFIX, OPTIONS, Settings, whole_path

PROG = "toolcall-middleware"
_KEPT: list[tempfile.TemporaryDirectory[str]] = []
WIDTH = 100
"""Columns of the help where it is not measured: examples are not wrapped."""

MAX_FILE = 256 << 20
"""Bytes of a file or of standard input that a command reads."""
_TOO_LARGE = f"it has more than {MAX_FILE >> 20} MiB."
_OPEN_ALREADY = ("/dev/fd/", "/proc/self/fd/")  # how shells name `<(command)`


class UsageError(Exception):
    """What the user can put right, in one line: the command ends with exit code 2."""


SERVED = {0: "stopped by Ctrl-C", 130: "Ctrl-C before it served", 143: "stopped by SIGTERM"}
"""Exit codes of what serves until a signal. uvicorn hands the signal that ended it on to the process."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the command line."""

    name: str
    help: str
    """Its line in the list of commands."""
    configure: Callable[[argparse.ArgumentParser], None]
    """Adds its arguments."""
    run: Callable[[argparse.Namespace], int]
    """Runs the command and returns the exit code. The arguments after `--` are `args.rest`."""
    description: str = ""
    examples: tuple[str, ...] = ()
    """Whole lines, as a user would type them; `# …` after a line describes its purpose."""
    exit_codes: Mapping[int, str] = field(default_factory=dict)
    """Their meanings, where they differ from those of all commands: 0 "done", 2 and 130."""
    order: int = 50
    """Its position in the list of commands."""
    takes_rest: bool = False
    """Whether `-- ARGS` are handed on to another program unread."""

    def epilog(self) -> str:
        """Examples and exit codes, for the end of the help."""
        codes = {0: "done", 2: "a mistake in arguments or settings", 130: "Ctrl-C", **self.exit_codes}
        lines = ["examples:", *(f"  {line}" for line in self.examples), ""] if self.examples else []
        listed = "; ".join(f"{code}: {meaning}" for code, meaning in sorted(codes.items()))
        return "\n".join([*lines, *textwrap.wrap(f"exit codes: {listed}", WIDTH, subsequent_indent="  ")])


def number(least: int, most: int) -> Callable[[str], int]:
    """The type of an argument that is an integer within bounds."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return value

    return number


def option(parser: argparse.ArgumentParser, flag: str, help: str, **more: Any) -> None:  # noqa: A002 - argparse's name
    """Adds an option. flag: its name, and what it takes, as the help shows them. The help ends with a default given.

    An option whose `dest` is the name of a setting gives that setting (`given_settings`).
    """
    name, _, metavar = flag.partition(" ")
    if metavar:
        more["metavar"] = metavar
    parser.add_argument(name, help=help + " (default: %(default)s)" * ("default" in more), **more)


def add_upstream(parser: argparse.ArgumentParser) -> None:
    """Which backend: its address, its API, and the variable that holds its key."""
    option(parser, "--upstream URL", "the upstream's base address, /v1 included", dest="upstream_url")
    option(parser, "--upstream-api API", f"{OPTIONS['upstream_api'].allowed} (default: openai)")
    option(parser, "--key-env NAME", "the variable that holds the upstream's key")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Any setting by name."""
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="any setting; repeatable")


def add_template(parser: argparse.ArgumentParser) -> None:
    """Whose chat template `--format template` means."""
    option(parser, "--template PATH", "a checkpoint whose chat template tells how calls are written")


def template_of(place: str | None) -> str | None:
    """The setting `template` for an argument that may also be a llama.cpp server's address, which is asked now.

    Raises SettingsError.
    """
    if place is None or not place.startswith(("http://", "https://")):
        return place
    from ..hosts.proxy.upstreams_file import ask

    ask(place, None)
    return place


def add_style(parser: argparse.ArgumentParser, *, mode: str = "prompt") -> None:
    """The options for requesting calls. `mode`: the command's default."""
    option(parser, "--format NAME", "how calls are written and read (default: auto)")
    add_template(parser)
    option(parser, "--mode MODE", f"{OPTIONS['mode'].allowed} (default: {mode})")


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that the arguments give; `--set` wins.

    Raises UsageError for a `--set` without a value, a `--key-env` that is not set, and an address with a path too many.
    """
    values = {name: value for name, value in vars(args).items() if name in OPTIONS and value is not None}
    refuse_whole_path(values.get("upstream_url"), "--upstream")
    variable = getattr(args, "key_env", None)
    if variable is not None:
        key = os.environ.get(variable, "").strip()
        if not key:
            raise UsageError(f"--key-env {variable}: the variable is not set.")
        values["upstream_key"] = key
    for item in getattr(args, "set", ()):
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--set {item}: write NAME=VALUE.")
        values[name] = value
    return values


def refuse_whole_path(url: str | None, source: str) -> None:
    """Raises UsageError for an upstream's address that names the path of one request. source: who gave it."""
    fault = whole_path(url)
    if fault is not None:
        raise UsageError(f"{source}: {fault}")


def safe(text: str) -> str:
    """`text` of a model or a backend for a terminal. Line ends and tabs stay."""
    return on_one_line(text, keep="\n\t")


def many(number: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def cut(text: str, most: int) -> str:
    """At most so many characters of `text`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(text: str) -> str:
    """`text` of a backend as one line for a terminal."""
    return on_one_line(" ".join(text.split()))


def read_file(name: str) -> bytes:
    """What the file `name` holds, `-` being stdin, without the mark that some editors begin UTF-8 with.

    Raises UsageError for a file that cannot be read, that is no regular file or a shell's `<(command)`, or that has
    more than 256 MiB.
    """
    try:
        if name == "-":
            read = sys.stdin.buffer.read(MAX_FILE + 1)
        else:
            path = Path(name)
            found = path.stat()  # before it is opened: a pipe that nothing writes to would block
            kind = found.st_mode
            if not (stat.S_ISREG(kind) or (stat.S_ISFIFO(kind) and name.startswith(_OPEN_ALREADY))):
                raise UsageError(f"{name}: it is {'a folder' if stat.S_ISDIR(kind) else 'no regular file'}.")
            if found.st_size > MAX_FILE:
                raise UsageError(f"{name}: {_TOO_LARGE}")
            with path.open("rb") as file:
                read = file.read(MAX_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise UsageError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if len(read) > MAX_FILE:
        raise UsageError(f"{name}: {_TOO_LARGE}")
    return read.removeprefix(codecs.BOM_UTF8)


def to_environment(values: Mapping[str, Any]) -> None:
    """Passes settings through the environment to `create_proxy`, here or in worker processes."""
    os.environ.update({ENV_PREFIX + name.upper(): str(value) for name, value in values.items()})
    before = os.environ.get(COMMAND_LINE, "").split(",")
    os.environ[COMMAND_LINE] = ",".join(dict.fromkeys(name for name in (*before, *values) if name))


def share_metrics() -> None:
    """Lets the metrics of worker processes be added up, where the operator has not said in which folder."""
    name = "PROMETHEUS_MULTIPROC_DIR"
    if not os.environ.get(name):
        folder = tempfile.TemporaryDirectory(prefix="toolcall-metrics-")  # removed when this process ends
        _KEPT.append(folder)
        os.environ[name] = folder.name


def upstream_of(settings: Settings) -> str | None:
    """The address of the one upstream as it may be shown; None where none is set."""
    shown = next(shown for name, shown, _ in settings.explain() if name == "upstream_url")
    return None if settings.upstream_url is None else shown
