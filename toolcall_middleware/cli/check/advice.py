"""The settings that fit what was found. Only what differs from the defaults is named, with the reason."""

from __future__ import annotations

from ...formats import registry
from ...model import Tool, ToolChoice
from .findings import Finding, Report, Score, Verdict
from .trials import written_by

# In the order in which `constrain=auto` asks, then what only an operator can ask for.
_KINDS = ("response_format", "llama_cpp", "structured_outputs", "structural_tag")
_ASKED_BY_AUTO = 2


def working_constraint(report: Report, fmt: str) -> str | None:
    """The value of `constrain` that really constrains answers in this format, None where there is none."""
    works = {finding.key.removeprefix("constrain.") for finding in report.findings if finding.verdict is Verdict.YES}
    tags = _has_tags(report, fmt)
    if tags and "structural_tag.hermes" in works:
        return "structural_tag"
    # Plain JSON: every format reads it.
    return next((kind for kind in _KINDS if kind in works and not (kind == _KINDS[3] and tags)), None)


def _has_tags(report: Report, fmt: str) -> bool:
    found = registry.for_model(fmt, report.model, report.template).constraint([Tool("f")], ToolChoice())
    return found is not None and bool(found.tags)


def system_role(findings: list[Finding]) -> str | None:
    """`user` where the backend takes user messages and no system message, else None."""
    refused = any(one.key == "history.system" and one.verdict is Verdict.NO for one in findings)
    return "user" if refused else None


def advise(report: Report) -> None:
    """Fills the report's settings and the reasons for them."""
    best = _best(report.scores)
    if best is None:
        return
    mode, fmt = best
    set_, why = report.settings, report.reasons
    total = _score(report.scores, mode, fmt)
    if mode == "native":
        set_["TOOLCALL_MODE"] = "native"
        why["TOOLCALL_MODE"] = f"the backend's own tool calls came out best ({total})"
        return
    set_["TOOLCALL_MODE"] = "prompt"
    if _tried_native(report):
        why["TOOLCALL_MODE"] = f"calls by prompt came out best ({total})"
    else:
        slow = any(one.key.startswith("native.") and one.verdict is Verdict.UNKNOWN for one in report.findings)
        why["TOOLCALL_MODE"] = "native calls could not be tried" if slow else "no native calls"
    usual = written_by(report.model, "auto", report.template)
    if fmt not in {"auto", usual}:
        set_["TOOLCALL_FORMAT"] = fmt
        tried = any(score.format in {"auto", usual} for score in report.scores)
        why["TOOLCALL_FORMAT"] = f"better than {usual}, which auto writes" if tried else "the best of those tried"
    if report.template is not None and written_by(report.model, fmt, report.template) == registry.TEMPLATE:
        set_["TOOLCALL_TEMPLATE"] = report.template
        why["TOOLCALL_TEMPLATE"] = "whose form of calls that is"
    _constrain(report, fmt)
    role = system_role(report.findings)
    if role is not None:
        set_["TOOLCALL_SYSTEM_ROLE"] = role
        why["TOOLCALL_SYSTEM_ROLE"] = "system messages are refused"


def choosing(report: Report) -> Finding:
    """Whether the setting `choose` has what it needs."""
    what = "answers constrained to a call or to text"
    usual = written_by(report.model, "auto", report.template)
    kind = working_constraint(report, usual)
    if kind is None:
        return Finding("choose", what, Verdict.NO, "the backend constrains nothing: unset TOOLCALL_CHOOSE")
    return Finding("choose", what, Verdict.YES, f"by {kind}")


def _constrain(report: Report, fmt: str) -> None:
    probes = {one.key: one for one in report.findings if one.key.startswith("constrain.")}
    if not probes:
        return
    kind = working_constraint(report, fmt)
    name = "TOOLCALL_CONSTRAIN"
    if kind is None:
        if all(one.verdict is Verdict.NO for one in probes.values()):
            report.settings[name] = "off"
            report.reasons[name] = "the backend constrains nothing: asking would only cost tries"
        return
    if _auto_finds(probes, kind, tags=_has_tags(report, fmt)):
        return
    report.settings[name] = kind
    report.reasons[name] = "it constrains; what auto asks for first does not"


def _auto_finds(probes: dict[str, Finding], kind: str, *, tags: bool) -> bool:
    """Whether `constrain=auto` gets there without being fooled: what it asks before is refused, not ignored."""
    order = [*(["structural_tag.hermes"] if tags else []), *_KINDS[:_ASKED_BY_AUTO]]
    for asked in order:
        if asked.partition(".")[0] == kind:
            return True
        finding = probes.get(f"constrain.{asked}")
        if finding is not None and not finding.detail.startswith("refused"):
            return False
    return False


def _tried_native(report: Report) -> bool:
    return any(score.mode == "native" and score.asked for score in report.scores)


def _best(scores: list[Score]) -> tuple[str, str] | None:
    """(mode, format) with the most right calls. Of equals the first: native, then auto, then what was named."""
    ways = list(dict.fromkeys((score.mode, score.format) for score in scores if score.asked))
    if not ways:
        return None
    best = max(ways, key=lambda way: _points(scores, *way))
    return best if _points(scores, *best) > (0.0, 0.0) else None


def _points(scores: list[Score], mode: str, fmt: str) -> tuple[float, float]:
    """Shares of calls that are right, and that are valid: of `auto`, and of the best way to get a required one."""
    own = [score for score in scores if (score.mode, score.format) == (mode, fmt) and score.asked]
    right = valid = 0.0
    for choice in ("auto", "required"):
        of_choice = [score for score in own if score.tool_choice == choice]
        right += max((score.right / score.asked for score in of_choice), default=0.0)
        valid += max((score.valid / score.asked for score in of_choice), default=0.0)
    return right, valid


def _score(scores: list[Score], mode: str, fmt: str) -> str:
    own = [score for score in scores if (score.mode, score.format) == (mode, fmt) and score.asked]
    return ", ".join(
        f"{score.tool_choice}{'' if score.constrain == 'off' else ' constrained'} {score.right}/{score.asked}"
        for score in own
    )
