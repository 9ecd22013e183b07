"""The settings that fit what was found. Only what differs from the defaults is named, with the reason."""

from __future__ import annotations

from ...formats import registry
from ...model import Tool, ToolChoice
from .findings import Finding, Report, Tally, Verdict
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
    best = _best(report.tallies)
    if best is None:
        return
    mode, fmt = best
    set_, why = report.settings, report.reasons
    total = _score(report.tallies, mode, fmt)
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
        tried = any(tally.format in {"auto", usual} for tally in report.tallies)
        why["TOOLCALL_FORMAT"] = f"better than {usual}, which auto writes" if tried else "the best of those tried"
    if report.template is not None and written_by(report.model, fmt, report.template) == registry.TEMPLATE:
        set_["TOOLCALL_TEMPLATE"] = report.template
        why["TOOLCALL_TEMPLATE"] = "whose form of calls that is"
    _constrain(report, fmt)
    role = system_role(report.findings)
    if role is not None:
        set_["TOOLCALL_SYSTEM_ROLE"] = role
        why["TOOLCALL_SYSTEM_ROLE"] = "system messages are refused"


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
    return any(tally.mode == "native" and tally.asked for tally in report.tallies)


def _best(tallies: list[Tally]) -> tuple[str, str] | None:
    """(mode, format) with the most right calls. Of equals the first: native, then auto, then what was named."""
    ways = list(dict.fromkeys((tally.mode, tally.format) for tally in tallies if tally.asked))
    if not ways:
        return None
    best = max(ways, key=lambda way: _points(tallies, *way))
    return best if _points(tallies, *best) > (0.0, 0.0) else None


def _points(tallies: list[Tally], mode: str, fmt: str) -> tuple[float, float]:
    """Shares of calls that are right, and that are valid: of `auto`, and of the best way to get a required one."""
    own = [tally for tally in tallies if (tally.mode, tally.format) == (mode, fmt) and tally.asked]
    right = valid = 0.0
    for choice in ("auto", "required"):
        of_choice = [tally for tally in own if tally.tool_choice == choice]
        right += max((tally.right / tally.asked for tally in of_choice), default=0.0)
        valid += max((tally.valid / tally.asked for tally in of_choice), default=0.0)
    return right, valid


def _score(tallies: list[Tally], mode: str, fmt: str) -> str:
    own = [tally for tally in tallies if (tally.mode, tally.format) == (mode, fmt) and tally.asked]
    return ", ".join(
        f"{tally.tool_choice}{'' if tally.constrain == 'off' else ' constrained'} {tally.right}/{tally.asked}"
        for tally in own
    )
