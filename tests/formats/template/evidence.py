"""How well families are derived from real templates: `python -m tests.formats.template.evidence FOLDER [--write]`.

FOLDER holds chat templates (`*.jinja`), got by hand: named as in llama.cpp's `models/templates`, or `trl-NAME` if
of the package trl. Nothing is downloaded here; no template is in this repository. Each row is one template: what is
derived from it, and how many golden cases of the family that its model is of the derived family reads exactly,
`alone` (built from the renderings, with no built-in family's reader) and as `format=template` uses it.
`--write` puts the table into docs/reference/templates.md. The exit code is 1 where a template is read wrong.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from toolcall_middleware.errors import FormatError
from toolcall_middleware.formats.base import ToolFormat
from toolcall_middleware.formats.template.derive import Derived, derive
from toolcall_middleware.formats.template.render import ChatTemplate

from ...parsing.streams import read
from .. import goldens

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "templates.md"
BEGIN, END = "<!-- the table, written by tests/formats/template/evidence.py -->", "<!-- end of the table -->"

# The family that a template's models are of, by the beginning of the file's name; the longest that fits.
FAMILIES = {
    "Apertus": "apertus",
    "Bielik": "hermes",
    "ByteDance-Seed-OSS": "seed_oss",
    "Cohere2MoE": "cohere_command3",
    "CohereForAI-c4ai-command-r-plus": "command_r",
    "CohereForAI-c4ai-command-r7b": "cohere_command3",
    "GLM-4.6": "glm45",
    "GLM-4.7": "glm47",
    "GigaChat3": "gigachat3",
    "Kimi-K2": "kimi_k2",
    "LFM2": "lfm2",
    "MiMo": "hermes",
    "MiniMax-M2": "minimax_m2",
    "MiniMax-M3": "minimax_m3",
    "Mistral-Small-3.2": "mistral_v11",
    "NVIDIA-Nemotron-3": "qwen3_coder",
    "NVIDIA-Nemotron-Nano": "nemotron",
    "NousResearch-Hermes": "hermes",
    "Qwen-": "hermes",
    "Qwen3-Coder": "qwen3_coder",
    "Qwen3.5": "qwen3_coder",
    "Reka": "reka",
    "StepFun3.5": "step3p5",
    "deepseek-ai-DeepSeek-R1": "deepseek_v3",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v31",
    "deepseek-ai-DeepSeek-V3.2": "deepseek_v32",
    "deepseek-ai-DeepSeek-V4": "deepseek_v4",
    "google-gemma-4": "gemma4",
    "ibm-granite-granite-3": "granite",
    "ibm-granite-granite-4": "granite4",
    "llama-cpp-deepseek-r1": "deepseek_v3",
    "meetkai-functionary-medium-v3.1": "functionary_v31",
    "meetkai-functionary-medium-v3.2": "functionary_v32",
    "meta-llama-Llama-3": "llama3_json",
    "mistralai-Ministral-3": "mistral_v11",
    "mistralai-Mistral-Nemo": "mistral_old",
    "moonshotai-Kimi-K2": "kimi_k2",
    "muse-glimmer": "muse_glimmer",
    "openai-gpt-oss": "harmony",
    "openbmb-MiniCPM5": "minicpm5",
    "poolside-Laguna-S": "glm47",
    "poolside-Laguna-XS": "glm45",
    "tencent-Hy3": "hy_v3",
    "trl-cohere2": "cohere_command3",
    "trl-deepseekv3": "deepseek_v3",
    "trl-glm4moe": "glm45",
    "trl-gptoss": "harmony",
    "trl-lfm2": "lfm2",
    "trl-llama3_1": "llama3_json",
    "trl-llama3_2": "llama3_json",
    "trl-nemotron_3": "qwen3_coder",
    "trl-qwen2_5": "hermes",
    "trl-qwen3": "hermes",
    "trl-qwen3_5": "qwen3_coder",
    "trl-qwen3_6": "qwen3_coder",
    "unsloth-MiniMax-M2": "minimax_m2",
    "unsloth-mistral-Devstral": "mistral_v11",
    "upstage-Solar-Open": "solar_open",
}


@dataclass(frozen=True, slots=True)
class Row:
    template: str
    family: str | None
    used: Derived
    exact: int
    alone: int | None
    cases: int

    @property
    def verdict(self) -> str:
        if self.used.family is None:
            return "fallback"
        if self.family is None:
            return "no goldens"
        return "right" if self.exact == self.cases else "wrong"

    def cells(self) -> list[str]:
        used = self.used
        read_back = f"{used.read_back} of {used.tried}" if used.family is not None else used.why
        alone = "–" if self.alone is None else f"{self.alone} of {self.cases}"
        exact = "–" if used.family is None or self.family is None else f"{self.exact} of {self.cases}"
        like = "–" if used.family is None else used.like or "none"
        return [self.template, self.family or "–", self.verdict, exact, alone, like, read_back]


def family_of(name: str) -> str | None:
    """The family whose goldens a template's model has to read."""
    found = [key for key in FAMILIES if name.startswith(key)]
    return FAMILIES[max(found, key=len)] if found else None


def exact_cases(fmt: ToolFormat, family: str) -> int:
    """How many golden cases of a family are read exactly."""
    exact = 0
    for case in goldens.load(family):
        try:
            case.check(read(case.reader(fmt), [case.text], cut=case.ends_cut))
        except AssertionError:
            continue
        exact += 1
    return exact


def row(file: Path) -> Row:
    """One template's evidence."""
    template = ChatTemplate(file.read_text("utf-8"), {"bos_token": "<s>", "eos_token": "</s>"})
    family = family_of(file.name)
    try:
        used, alone = derive(template), derive(template, adopt=False)
    except FormatError as error:
        return Row(file.stem, family, Derived(family=None, why=str(error)), 0, None, 0)
    cases = len(goldens.load(family)) if family is not None else 0
    return Row(
        file.stem,
        family,
        used,
        exact_cases(used.family, family) if used.family is not None and family is not None else 0,
        exact_cases(alone.family, family) if alone.family is not None and family is not None else None,
        cases,
    )


def table(rows: list[Row]) -> str:
    """The rows in Markdown, and what they add up to."""
    heads = ["template", "family", "verdict", "goldens exact", "exact alone", "reader of", "renderings read back"]
    lines = [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *(each.cells() for each in rows)]]
    known = [each for each in rows if each.family is not None]
    count = {verdict: sum(each.verdict == verdict for each in known) for verdict in ("right", "fallback", "wrong")}
    alone = sum(each.alone == each.cases for each in known)
    total = (
        f"Of {len(known)} templates whose family has golden cases {count['right']} are right, {count['fallback']} fall "
        f"back and {count['wrong']} are wrong; alone, {alone} read every case. {len(rows) - len(known)} more have no "
        "golden cases of their own."
    )
    return "\n".join([total, "", *lines])


def main(arguments: list[str]) -> int:
    """Prints the table; 1 where a template is read wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(arguments)
    rows = [row(file) for file in sorted(args.folder.glob("*.jinja"))]
    text = table(rows)
    print(text)
    if args.write:
        page = PAGE.read_text("utf-8")
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")
    return 1 if any(each.verdict == "wrong" for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
