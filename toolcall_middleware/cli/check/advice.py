"""The settings that fit what was found. Only what differs from the defaults is named, with the reason."""

from __future__ import annotations

from ...formats import registry
from ...model import Tool, ToolChoice
from .findings import Finding, Report, Score, Verdict
from .trials import Trial, written_by

# In the order in which `constrain=auto` asks, then what only an operator can ask for.
_KINDS = ("response_format", "llama_cpp", "structured_outputs", "structural_tag")
_ASKED_BY_AUTO = frozenset({"structural_tag.hermes", "response_format", "llama_cpp"})
CHOOSE = "answers constrained to a call or to text"
"""What is found out of the setting `choose`."""


def working_constraint(report: Report, fmt: str) -> str | None:
    """The value of `constrain` that really constrains answers in this format; None where no value does."""
    works = (key for key in _probed(report, fmt) if report.verdict(f"constrain.{key}") is Verdict.YES)
    return next(works, "").partition(".")[0] or None


def _probed(report: Report, fmt: str) -> tuple[str, ...]:
    """The constraints that help with this format: a schema for plain JSON, which every format reads, or its tags."""
    found = registry.for_model(fmt, report.model, report.template).constraint([Tool("f")], ToolChoice())
    return ("structural_tag.hermes", *_KINDS[:3]) if found is not None and found.tags else _KINDS


def _auto_finds(report: Report, fmt: str) -> bool:
    """Whether `constrain=auto` gets to the working constraint without being fooled: what it asks before is refused, not
    ignored.
    """
    for key in _probed(report, fmt):
        found = next((one for one in report.findings if one.key == f"constrain.{key}"), None)
        if key not in _ASKED_BY_AUTO or (found is not None and found.verdict is Verdict.YES):
            return key in _ASKED_BY_AUTO
        if found is not None and not found.detail.startswith("refused"):
            return False
    return False


def system_role(report: Report) -> str | None:
    """`user` where the backend takes user messages and no system message, else None."""
    return "user" if report.verdict("history.system") is Verdict.NO else None


def best_way(report: Report) -> tuple[str, str] | None:
    """Mode and format in which calls came out best; None where none did. Of equals the first: native, auto, others."""
    ways = list(dict.fromkeys((score.mode, score.format) for score in report.calls if score.asked))
    best = max(ways, key=lambda way: _points(report.calls, *way), default=None)
    return best if best is not None and any(_points(report.calls, *best)) else None


def advise(report: Report) -> None:
    """Fills the report's settings and the reasons for them."""
    best = best_way(report)
    if best is None:
        return

    def advice(name: str, value: str, why: str) -> None:
        report.settings[f"TOOLCALL_{name}"] = value
        report.reasons[f"TOOLCALL_{name}"] = why

    mode, fmt = best
    counts = ", ".join(
        f"{score.tool_choice}{'' if score.constrain == 'off' else ' constrained'} {score.came}/{score.asked}"
        for score in report.calls
        if (score.mode, score.format) == best and score.asked and not score.choose
    )
    if mode == "native":
        advice("MODE", "native", f"the backend's own tool calls came out best ({counts})")
        return
    if any(score.mode == "native" and score.asked for score in report.calls):
        advice("MODE", "prompt", f"calls by prompt came out best ({counts})")
    else:
        slow = any(one.key.startswith("native.") and one.verdict is Verdict.UNKNOWN for one in report.findings)
        advice("MODE", "prompt", "native calls could not be tried" if slow else "no native calls")
    usual = written_by(report.model, "auto", report.template)
    if fmt not in {"auto", usual}:
        tried = any(score.format in {"auto", usual} for score in report.calls)
        advice("FORMAT", fmt, f"better than {usual}, which auto writes" if tried else "the best of those tried")
    if report.template is not None and written_by(report.model, fmt, report.template) == registry.TEMPLATE:
        advice("TEMPLATE", report.template, "whose form of calls that is")
    probes = [one.verdict for one in report.findings if one.key.startswith("constrain.")]
    kind = working_constraint(report, fmt)
    if probes and kind is None and {*probes} == {Verdict.NO}:
        advice("CONSTRAIN", "off", "the backend constrains nothing: asking would only cost tries")
    elif kind is not None and not _auto_finds(report, fmt):
        advice("CONSTRAIN", kind, "it constrains; what auto asks for first does not")
    for finding in report.findings:
        if finding.key == "choose" and finding.verdict is Verdict.YES:
            advice("CHOOSE", "true", finding.detail)
    role = system_role(report)
    if role is not None:
        advice("SYSTEM_ROLE", role, "system messages are refused")


def choosing(free: Trial, chosen: Trial) -> Finding:
    """Whether the setting `choose` brings more right answers under `auto`. free, chosen: without it, and with it."""
    before, after = free.score, chosen.score
    better = after.came + chosen.in_words > before.came + free.in_words
    detail = f"right calls under auto {after.came}/{after.asked} instead of {before.came}/{before.asked}"
    if free.in_words and not chosen.in_words:
        detail += ", but also a call where no tool fits"
    return Finding("choose", CHOOSE, Verdict.YES if better else Verdict.NO, detail)


def _points(scores: list[Score], mode: str, fmt: str) -> tuple[float, float]:
    """Shares of calls that are right, and that are valid: of `auto`, and of the best way to get a required one."""
    own = [score for score in scores if (score.mode, score.format) == (mode, fmt) and score.asked and not score.choose]
    right = valid = 0.0
    for choice in ("auto", "required"):
        of_choice = [score for score in own if score.tool_choice == choice]
        right += max((score.came / score.asked for score in of_choice), default=0.0)
        valid += max((score.valid / score.asked for score in of_choice), default=0.0)
    return right, valid
