"""`toolcall-middleware check`: asks a backend some dozens of small questions and says what it can do.

What it finds out: native tools, each kind of constraint and whether it really constrains, usage, stop strings, what
history may hold, and how many calls come out right by which mode and format. It ends with the settings to use.
`run.examine(app, …)` does the asking, on any ASGI app; report.py publishes, bfcl.py reads the leaderboard's questions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...settings import Settings
from ..command import (
    Command,
    add_settings,
    add_template,
    add_upstream,
    given_settings,
    number,
    refuse_whole_path,
)


def _configure(parser: argparse.ArgumentParser) -> None:
    add_upstream(parser)
    parser.add_argument("--model", metavar="NAME", help="the model to ask (default: the first that is listed)")
    parser.add_argument(
        "--format",
        metavar="NAME",
        action="append",
        default=[],
        dest="formats",
        help="try this one; repeatable",
    )
    add_template(parser)
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=number(1, 86400),
        default=300,
        help="the longest it may take (default: %(default)s)",
    )
    parser.add_argument(
        "--tokens",
        metavar="N",
        type=number(1, 10**7),
        default=20_000,
        help="the most that the model may write (default: %(default)s)",
    )
    parser.add_argument(
        "--api",
        choices=("chat", "messages", "responses"),
        default="chat",
        help="the API in which calls are asked for, as a client would (default: %(default)s)",
    )
    parser.add_argument(
        "--report", metavar="DIR", type=Path, help="also write a report that can be published: a page and JSON"
    )
    parser.add_argument(
        "--backend", metavar="NAME", help="what the report calls the backend (default: what it says that it is)"
    )
    parser.add_argument(
        "--bfcl", metavar="FILE", type=Path, help="ask for calls with the questions of this file of BFCL's"
    )
    parser.add_argument(
        "--bfcl-answers",
        metavar="FILE",
        type=Path,
        help="their possible answers (default: the file of that name in possible_answer beside it)",
    )
    parser.add_argument(
        "--bfcl-limit",
        metavar="N",
        type=number(1, 100_000),
        default=20,
        help="ask the first N of them (default: %(default)s)",
    )
    add_settings(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def _run(args: argparse.Namespace) -> int:
    settings = Settings.from_env(**given_settings(args))
    refuse_whole_path(settings.upstream_url, settings.where("upstream_url"))

    from .bfcl import read_questions
    from .run import Options, run
    from .trials import built_in

    options = Options(
        model=args.model,
        formats=args.formats,
        seconds=args.seconds,
        tokens=args.tokens,
        api=args.api,
        questions=read_questions(args.bfcl, args.bfcl_answers, args.bfcl_limit) if args.bfcl else built_in(),
        backend=args.backend,
    )
    return run(options, settings, as_json=args.json, folder=args.report)


COMMAND = Command(
    name="check",
    help="ask a backend what it can do, and print the settings that fit",
    configure=_configure,
    run=_run,
    description="Asks a backend some dozens of small questions, one at a time, and prints what it can do, how many"
    " calls come out right by which mode and format, and the settings to use.",
    examples=(
        "toolcall-middleware check --upstream http://127.0.0.1:8000/v1",
        "toolcall-middleware check --upstream http://127.0.0.1:8000/v1 --format hermes --format json --json",
        "toolcall-middleware check --upstream http://127.0.0.1:8000/v1 --api messages   # what Claude Code would get",
        "toolcall-middleware check --upstream http://127.0.0.1:8000/v1 --format template --template /models/acme-9b",
        "toolcall-middleware check --upstream https://host/v1 --key-env MY_KEY --model NAME --tokens 5000",
        "toolcall-middleware check --upstream http://127.0.0.1:8000/v1 --report reports   # and reports/index.html",
        "toolcall-middleware check --upstream http://127.0.0.1:8000/v1 --bfcl BFCL_v4_parallel.json --bfcl-limit 50",
    ),
    exit_codes={
        0: "calls come out right in some way",
        1: "in none",
        2: "none was tried, or a mistake",
    },
    order=40,
)
