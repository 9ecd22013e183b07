"""The command line. Each command imports what it needs by itself, so that `--help` is quick."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import FormatError, SettingsError, ToolCallError
from ..model import ToolCall
from ..settings import ENV_PREFIX, OPTIONS, Settings

_PROG = "toolcall-middleware"
# What a user can put right: settings, formats. Also argparse's own.
_USAGE_ERROR = 2
# As shells tell of a process that SIGINT (2) ended.
_INTERRUPTED = 128 + 2

_SAMPLE = ToolCall("get_weather", '{"city": "Paris", "days": 2}')


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code: 0, 2 for a mistake in arguments or settings, 130 after Ctrl-C."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if rest and args.command is not _demo:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        code = command(args)
        sys.stdout.flush()
    except (SettingsError, FormatError) as error:
        print(f"{_PROG}: {error}", file=sys.stderr)
        return _USAGE_ERROR
    except BrokenPipeError:
        # `... | head`: nobody reads on, and what is left must not fail once more when Python flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"\n{_PROG}: stopped.", file=sys.stderr)
        return _INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROG,
        description="OpenAI-compatible tool calling for any chat-completions backend.",
        epilog=f"Every setting is also a variable {ENV_PREFIX}<NAME>; `{_PROG} config` lists them.",
    )
    parser.add_argument("--version", action="version", version=f"{_PROG} {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    serve = commands.add_parser("serve", help="run the reverse proxy in front of an upstream")
    serve.set_defaults(command=_serve)
    serve.add_argument("--upstream", metavar="URL", help="the upstream's base address, /v1 included")
    serve.add_argument("--upstreams", metavar="FILE", help="TOML with several upstreams; SIGHUP reads it anew")
    serve.add_argument("--host", default="127.0.0.1", help="where to listen (default: %(default)s)")
    serve.add_argument("--port", type=_number(0, 65535), default=8080, help="0: a free one (default: %(default)s)")
    serve.add_argument("--format", metavar="NAME", help="how calls are written and read (default: auto)")
    serve.add_argument("--mode", metavar="MODE", help=f"{OPTIONS['mode'].allowed} (default: prompt)")
    serve.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="any setting; repeatable")
    serve.add_argument("--workers", metavar="N", type=_number(1, 1024), default=1, help="processes (default: 1)")
    serve.add_argument("--log-level", default="info", choices=("critical", "error", "warning", "info", "debug"))
    serve.add_argument(
        "--timeout-graceful",
        metavar="SECONDS",
        type=_number(0, 86400),
        help="how long running answers may go on after a signal to stop (default: 30)",
    )

    config = commands.add_parser("config", help="print the settings and where each came from")
    config.set_defaults(command=_config)
    config.add_argument("--tenant", metavar="NAME", help="as they are for a tenant of the tenants_file")
    config.add_argument("--request", metavar="FILE", help="as they are for this request, a JSON body; - is stdin")
    config.add_argument("--json", action="store_true", help="as JSON")

    formats = commands.add_parser(
        "formats", help="list the formats, each with a sample call, and what the other APIs behind the proxy can do"
    )
    formats.set_defaults(command=_formats)
    formats.add_argument("--providers", action="store_true", help="only the other APIs")
    formats.add_argument("--json", action="store_true", help="as JSON")

    replay = commands.add_parser("replay", help="read a captured answer offline and print what a client would get")
    replay.set_defaults(command=_replay)
    replay.add_argument("file", metavar="FILE", help="model text, an event stream or a whole answer; - is stdin")
    replay.add_argument("--format", metavar="NAME", default="auto", help="how to read it (default: %(default)s)")
    replay.add_argument("--tools", metavar="FILE", help="JSON: a list of tools, or the request that was sent")
    replay.add_argument("--json", action="store_true", help="as JSON")

    check = commands.add_parser(
        "check",
        help="ask a backend what it can do, and print the settings that fit",
        description="Asks a backend some dozens of small questions, one at a time, and prints what it can do, how many"
        " calls come out right by which mode and format, and the settings to use. Its key is TOOLCALL_UPSTREAM_KEY.",
        epilog="Exit code: 0 when calls come out right in some way, 1 when in none, 2 when nothing could be checked.",
    )
    check.set_defaults(command=_check)
    check.add_argument("--upstream", metavar="URL", help="the backend's base address, /v1 included")
    check.add_argument("--model", metavar="NAME", help="the model to ask (default: the first that is listed)")
    check.add_argument("--format", metavar="NAME", action="append", default=[], help="try this one; repeatable")
    check.add_argument(
        "--seconds",
        metavar="N",
        type=_number(1, 86400),
        default=300,
        help="the longest it may take (default: %(default)s)",
    )
    check.add_argument(
        "--tokens",
        metavar="N",
        type=_number(1, 10**7),
        default=20_000,
        help="the most that the model may write (default: %(default)s)",
    )
    check.add_argument("--json", action="store_true", help="as JSON")

    # What follows it is the demo's own business.
    demo = commands.add_parser("demo", help="show the main job at work", add_help=False)
    demo.set_defaults(command=_demo)
    return parser


def _number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return value

    return number


def _serve(args: argparse.Namespace) -> int:
    given = {
        "upstream_url": args.upstream,
        "upstreams_file": args.upstreams,
        "format": args.format,
        "mode": args.mode,
        "shutdown_grace": args.timeout_graceful,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for item in args.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set {item}: write NAME=VALUE.")
        values[name] = value
    settings = Settings.from_env(**values)
    if settings.upstreams_file is not None and os.name != "nt":
        # It asks to read the file anew. Until somebody can, it would end the process, cleanly in systemd's eyes.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    import uvicorn

    from ..formats import registry
    from ..hosts.middleware.rate_limit import warn_of_workers
    from ..hosts.proxy.app import create_proxy
    from ..hosts.proxy.connections import BoundedProtocol
    from ..hosts.proxy.lifetime import supervise
    from ..hosts.proxy.upstream.connection import free_port, is_loopback
    from ..hosts.proxy.upstream.providers import with_mode

    registry.of_settings(settings)  # here, where it is still known who set it
    # By the environment, because worker processes build the app anew.
    os.environ.update({ENV_PREFIX + name.upper(): str(value) for name, value in values.items()})
    # Once here, so that a mistake is one line and not a traceback of every worker.
    create_proxy()
    if settings.upstreams_file is not None:
        supervise()

    settings = with_mode(settings, settings.upstream_api)
    host = f"[{args.host}]" if ":" in args.host else args.host
    port = args.port or free_port(args.host)
    print(
        f"{_PROG} {__version__}: http://{host}:{port}/v1 -> {_upstream(settings)}, "
        f"mode={settings.mode} format={settings.format}",
        file=sys.stderr,
        flush=True,
    )
    if not is_loopback(args.host) and not settings.api_keys:
        print(
            f"{_PROG}: warning: everybody who reaches {host}:{port} can use the upstream; "
            f"set {ENV_PREFIX}API_KEYS or listen on 127.0.0.1.",
            file=sys.stderr,
            flush=True,
        )
    warn_of_workers(settings, args.workers)
    uvicorn.run(
        "toolcall_middleware:create_proxy",
        factory=True,
        http=BoundedProtocol,
        host=args.host,
        port=port,
        workers=args.workers,
        log_level=args.log_level,
        lifespan="on",
        server_header=False,
        # The peer that we see goes into x-forwarded-for; what stands there already is kept.
        proxy_headers=False,
        access_log=False,  # the proxy writes its own
        log_config=_logging(args.log_level),
        timeout_graceful_shutdown=settings.shutdown_grace,
    )
    return 0


def _logging(level: str) -> dict[str, Any]:
    """Uvicorn's own, and ours: what happens goes to standard error, a line a request to standard output."""
    from uvicorn.config import LOGGING_CONFIG

    return {
        **LOGGING_CONFIG,
        "formatters": {**LOGGING_CONFIG["formatters"], "line": {"format": "%(message)s"}},
        "handlers": {
            **LOGGING_CONFIG["handlers"],
            "line": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stdout"},
        },
        "loggers": {
            **LOGGING_CONFIG["loggers"],
            "toolcall_middleware": {"handlers": ["default"], "level": level.upper(), "propagate": False},
            "toolcall_middleware.access": {"handlers": ["line"], "level": "INFO", "propagate": False},
        },
    }


def _upstream(settings: Settings) -> str:
    from ..hosts.proxy.upstream.providers import PROVIDERS

    if settings.upstreams_file is not None:
        return settings.upstreams_file
    if settings.upstream_url is None and settings.upstream_api in PROVIDERS:
        return str(PROVIDERS[settings.upstream_api].url)
    return next(shown for name, shown, _ in settings.explain() if name == "upstream_url")


def _config(args: argparse.Namespace) -> int:
    from ..formats import registry

    settings = Settings.from_env()
    registry.of_settings(settings)
    if settings.tenants_file is not None or args.tenant is not None:
        settings = _of_tenant(settings, args.tenant)
    if args.request is not None:
        settings = _of_request(settings, args.request)
    rows = settings.explain()
    if args.json:
        _print_json({name: {"value": value, "source": source} for name, value, source in rows})
        return 0
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, value, source in rows:
        print(f"{name:{names}}  {value:{values}}  {source}")
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

    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return settings.layer(overrides_of(body, settings), "request")
    except (OSError, ToolCallError) as error:
        raise SettingsError(f"--request {file}: {error}") from None


def _formats(args: argparse.Namespace) -> int:
    if args.providers:
        return _providers(args)
    from ..formats import registry

    rows: list[dict[str, str]] = []
    for name in registry.names():
        fmt = registry.get(name)
        module = type(fmt).__module__
        source = "built in" if module.startswith("toolcall_middleware.") else module
        rows.append({"name": name, "source": source, "sample": fmt.render_calls([_SAMPLE])})
    if args.json:
        _print_json(rows)
        return 0
    for row in rows:
        print(f"{row['name']} ({row['source']})")
        print("\n".join(f"    {line}" for line in row["sample"].strip("\n").split("\n")))
        print()
    return _providers(args)


def _providers(args: argparse.Namespace) -> int:
    """What of OpenAI's API each `upstream_api` can do."""
    from ..hosts.proxy.upstream.providers import PROVIDERS

    tables = {name: provider.capabilities for name, provider in sorted(PROVIDERS.items())}
    if args.json:
        _print_json(
            {
                name: {feature: {"support": row.support.value, "note": row.note} for feature, row in table.items()}
                for name, table in tables.items()
            }
        )
        return 0
    for name, table in tables.items():
        print(f"upstream_api={name}")
        width, how = max(map(len, table)), max(len(row.support.value) for row in table.values())
        for feature, row in table.items():
            print(f"    {feature:{width}}  {row.support.value:{how}}  {row.note}".rstrip())
        print()
    return 0


def _replay(args: argparse.Namespace) -> int:
    from .replay import ReplayError, run

    try:
        return run(args)
    except ReplayError as error:
        print(f"{_PROG}: {error}", file=sys.stderr)
        return _USAGE_ERROR


def _check(args: argparse.Namespace) -> int:
    given = {} if args.upstream is None else {"upstream_url": args.upstream}
    settings = Settings.from_env(**given)

    from .check import CheckError, Options, run

    options = Options(model=args.model, formats=args.format, seconds=args.seconds, tokens=args.tokens)
    try:
        return run(options, settings, as_json=args.json)
    except CheckError as error:
        print(f"{_PROG}: {error}", file=sys.stderr)
        return _USAGE_ERROR


def _demo(args: argparse.Namespace) -> int:
    from .demo import run

    return run(args.rest)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
