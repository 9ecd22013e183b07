"""`toolcall-middleware template PATH`: the family derived from a checkpoint's chat template."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import TYPE_CHECKING, Any

from ..model import Tool, ToolCall
from .command import WIDTH, Command, safe, template_of

if TYPE_CHECKING:
    from ..formats.template.derive import Derived

_TOOL = Tool(
    "get_weather",
    "The weather at a place.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
_CALL = ToolCall("get_weather", '{"city": "Paris", "days": 2}')


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="PATH",
        help="a checkpoint's folder or file, a model's name in Hugging Face's cache, or a llama.cpp server's address",
    )
    parser.add_argument("--prompt", action="store_true", help="also print a tool as the prompt describes it")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _run(args: argparse.Namespace) -> int:
    from ..formats.template import sources

    derived = sources.of_source(template_of(args.source) or "")
    if args.json:
        print(json.dumps(_as_json(args.source, derived), indent=2, ensure_ascii=False))
    else:
        _show(derived, prompt=args.prompt)
    return 0 if derived.family is not None else 1


def _as_json(source: str, derived: Derived) -> dict[str, Any]:
    family = derived.family
    return {
        "source": source,
        "confidence": derived.confidence,
        "calls": derived.kind,
        "like": derived.like,
        "read_back": derived.read_back,
        "tried": derived.tried,
        "sample": None if family is None else family.render_calls([_CALL]),
        "rendered": derived.sample,
        "lost": list(derived.lost),
        "unknown": list(derived.unknown),
        **{name.replace(" ", "_").replace("'", ""): value for name, value in derived.facts.items()},
        "prompt": None if family is None else family.render_tools([_TOOL], parallel=True),
        "why": derived.why,
    }


def _show(derived: Derived, *, prompt: bool) -> None:

    family = derived.family
    if family is None:
        print(safe(f"No family can be derived: {derived.why}."))
        if derived.sample:
            print(safe(f"\nA call as the template renders it:\n{_indented(derived.sample)}"))
        return
    rows = {
        "calls": derived.kind,
        "confidence": f"{derived.confidence}: {derived.read_back} of {derived.tried} renderings are read back exactly, "
        + ("and written with the same characters" if derived.same_text else "other characters are written than read"),
        **derived.facts,
    }
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        if value:
            print(safe(f"{name:{width}}" + textwrap.fill(value, WIDTH, subsequent_indent=" " * width)))
    print(safe(f"\nA call:\n{_indented(family.render_calls([_CALL]))}"))
    print(safe(f"\nCalls as the template renders them:\n{_indented(derived.sample)}"))
    for what, found in (
        ("Arguments that the template writes so that no reader can tell them", derived.lost),
        ("What could not be determined", derived.unknown),
    ):
        if found:
            print(safe(f"\n{what}:\n" + "\n".join(f"  - {each}" for each in found)))
    if prompt:
        print(safe(f"\nA tool in the prompt:\n{_indented(family.render_tools([_TOOL], parallel=True))}"))


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


COMMAND = Command(
    name="template",
    help="derive how a model writes calls from its checkpoint's chat template",
    configure=_configure,
    run=_run,
    examples=(
        "toolcall-middleware template ./my-model           # its tokenizer_config.json or chat_template.jinja",
        "toolcall-middleware template org/model --prompt   # from Hugging Face's cache; nothing is downloaded",
        "toolcall-middleware template http://127.0.0.1:8080 --json   # what a llama.cpp server tells",
    ),
    exit_codes={0: "a family is derived", 1: "none can be"},
    order=63,
)
