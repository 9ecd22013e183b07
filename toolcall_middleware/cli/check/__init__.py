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
    option,
    refuse_whole_path,
)


def _configure(parser: argparse.ArgumentParser) -> None:
    add_upstream(parser)
    option(parser, "--model NAME", "the model to ask (default: the first that is listed)")
    parser.add_argument(
        "--format", metavar="NAME", action="append", default=[], dest="formats", help="try this one; repeatable"
    )
    add_template(parser)
    option(parser, "--seconds N", "the longest it may take", type=number(1, 86400), default=300)
    option(parser, "--tokens N", "the most that the model may write", type=number(1, 10**7), default=20_000)
    apis = ("chat", "messages", "responses")
    option(parser, "--api", "the API in which calls are asked for, as a client would", choices=apis, default="chat")
    option(parser, "--report DIR", "also write a report that can be published: a page and JSON", type=Path)
    option(parser, "--backend NAME", "what the report calls the backend (default: what it says that it is)")
    option(parser, "--bfcl FILE", "ask for calls with the questions of this file of BFCL's", type=Path)
    answers = "their possible answers (default: the file of that name in possible_answer beside it)"
    option(parser, "--bfcl-answers FILE", answers, type=Path)
    option(parser, "--bfcl-limit N", "ask the first N of them", type=number(1, 100_000), default=20)
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
    exit_codes={0: "calls come out right in some way", 1: "in none", 2: "none was tried, or a mistake"},
    order=40,
)
