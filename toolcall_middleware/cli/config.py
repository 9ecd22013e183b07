"""`toolcall-middleware config`: the settings in force, where each came from, and what it does."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from typing import Any

from ..errors import SettingsError, ToolCallError
from ..settings import OPTIONS, Settings
from .command import Command, UsageError, add_settings, cut, given_settings, option, read_file

_INDENT = "    "
_WIDEST = 120
# Columns for values: one long list must not push the sources of all out of sight.
_VALUES = 32
_LEAST_VALUES = 12


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these settings, with what each allows")
    add_settings(parser)
    option(parser, "--upstreams FILE", "as they are for each upstream of this file", dest="upstreams_file")
    option(parser, "--tenant NAME", "as they are for a tenant of the tenants_file")
    option(parser, "--request FILE", "as they are for this request, a JSON body; - is stdin")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _run(args: argparse.Namespace) -> int:
    from ..formats import registry

    names = _known(args.names)
    values = given_settings(args)
    file = values.pop("upstreams_file", None)
    settings = Settings.from_env(**values)
    registry.of_settings(settings)
    if file is not None:
        return _of_upstreams(settings, file, names, as_json=args.json)
    if settings.tenants_file is not None or args.tenant is not None:
        settings = _of_tenant(settings, args.tenant)
    if args.request is not None:
        settings = _of_request(settings, args.request)
    if args.json:
        print(json.dumps(_as_json(settings, names), indent=2, ensure_ascii=False))
    elif args.names:
        _print_some(settings, names)
    else:
        _print_rows(_rows(settings, names))
    return 0


def _known(asked: list[str]) -> list[str]:
    import difflib

    for name in asked:
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, n=1)
            raise UsageError(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else "."))
    return asked or list(OPTIONS)


def _rows(settings: Settings, names: list[str]) -> list[tuple[str, str, str]]:
    return [row for row in settings.explain() if row[0] in names]


def _as_json(settings: Settings, names: list[str]) -> dict[str, Any]:
    return {
        name: {"value": value, "source": source, "allowed": OPTIONS[name].allowed, "description": OPTIONS[name].help}
        for name, value, source in _rows(settings, names)
    }


def _print_rows(rows: list[tuple[str, str, str]]) -> None:
    """A line each. A terminal's width is kept: long values are cut, and the description takes what is left.

    Elsewhere all is whole, and a long value pushes only its own line to the right.
    """
    if not rows:
        return
    names, values, sources = (max(len(row[column]) for row in rows) for column in range(3))
    values = min(values, _VALUES)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if columns is not None:
        values = min(values, max(_LEAST_VALUES, columns - names - sources - 4))
    for name, value, source in rows:
        shown = value if columns is None else cut(value, values)
        line = f"{name:{names}}  {shown:{values}}  {source:{sources}}  {OPTIONS[name].help}"
        print(line if columns is None else cut(line, columns))


def _print_some(settings: Settings, names: list[str]) -> None:
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    for name, value, source in _rows(settings, names):
        print(f"{name} = {value} ({source})")
        for line in (OPTIONS[name].help, f"Allowed: {OPTIONS[name].allowed}."):
            print(textwrap.fill(line, width, initial_indent=_INDENT, subsequent_indent=_INDENT))


def _of_upstreams(settings: Settings, file: str, names: list[str], *, as_json: bool) -> int:
    """What each upstream of a file has of its own."""
    from ..hosts.proxy.upstreams_file import read_upstreams

    upstreams = read_upstreams(file, settings)
    if as_json:
        listed = {one.name: _as_json(one.settings, names) for one in upstreams}
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return 0
    base = {row[0]: row for row in settings.explain()}
    for number, one in enumerate(upstreams):
        print("\n" * (number > 0) + f"[{one.name}] {', '.join(one.models)}")
        _print_rows([row for row in _rows(one.settings, names) if row[1] != base[row[0]][1]])
    return 0


def _of_tenant(settings: Settings, name: str | None) -> Settings:
    """What holds for a tenant, or for who is in no table of the file."""
    from ..hosts.middleware.tenants import Tenancy

    if settings.tenants_file is None:
        raise SettingsError(f"--tenant {name}: there is no tenants_file.")
    tenants = Tenancy(settings).tenants
    if name is None:
        return tenants.default
    if name not in tenants.by_name:
        known = ", ".join(sorted(tenants.by_name)) or "none"
        raise SettingsError(f"--tenant {name}: {settings.tenants_file} has no such tenant; known: {known}.")
    return tenants.by_name[name]


def _of_request(settings: Settings, file: str) -> Settings:
    """What holds for a request, with what its body changes."""
    from ..request.parse import overrides_of

    body = read_file(file)
    try:
        return settings.layer(overrides_of(body, settings), "request")
    except ToolCallError as error:
        raise SettingsError(f"--request {file}: {error}") from None


COMMAND = Command(
    name="config",
    help="print the settings, where each came from and what it does",
    configure=_configure,
    run=_run,
    examples=(
        "toolcall-middleware config",
        "toolcall-middleware config mode format        # what these two allow",
        "toolcall-middleware config --set profile=strict",
        "toolcall-middleware config --upstreams upstreams.toml",
        "toolcall-middleware config --tenant research --request body.json",
    ),
    order=50,
)
