"""Hostile model output: what a character of it costs, against a character of prose, and whether that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall

from . import material, measure
from .growth import wrapper
from .report import Table

_OFFERING = material.request([material.write_file_tool()])
_PIECE = 40
_SHOWN = 10
_DOUBTFUL = 2.2


@dataclass(frozen=True, slots=True)
class _Case:
    """`unit` over and over, behind `before`."""

    unit: str
    before: str = ""

    def text(self, size: int) -> str:
        """About `size` characters."""
        return self.before + self.unit * (size // len(self.unit))

    @property
    def name(self) -> str:
        """How it stands in the table: as Markdown, on one line."""
        behind = f" behind `{_shown(self.before)}`" if self.before else ""
        return f"`{_shown(self.unit)}`{behind}"


def _shown(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii").replace("`", "'").replace("|", "\\|")[:60]


def _cases() -> Iterator[_Case]:
    call = ToolCall(material.TOOL, '{"path": "x"}')
    markers = set()
    for name in registry.names():
        written = registry.get(name).render_calls([call])
        markers |= {written, written[: len(written) // 2], *written.split()}
    for unit in sorted(markers):
        yield _Case(unit + " ")
    for unit in (
        "`",
        "``` ",
        "~~~\n",
        "{",
        "[",
        "<",
        "\n",
        " ",
        "<think>",
        "</think>",
        "\x00",
        "\\",
        '"',
        '{"a":',
        "- ",
    ):
        yield _Case(unit)
    begin, _ = material.call_text("hermes", "")
    for unit in ("\\", '\\"', '"', "{", "[", '{"a":', "'", "</tool_call>", "x" * 40, "\\u00e9", "1,", "\n"):
        yield _Case(unit, begin + '{"path": "')
        yield _Case(unit, begin + '{"path": ')
    for before in ("<function=write_file>\n<parameter=content>\n", "[write_file(content='", "<tool_call>write_file\n"):
        for unit in ("</", "<", "</parameter>", "\n", "'", "\\", "<arg_key>", ")", "<![CDATA["):
            yield _Case(unit, before)


def _time(text: str) -> Callable[[], float]:
    messages = measure.messages([material.ROLE, *material.events(material.cut(text, _PIECE))])

    app = wrapper("auto", {"max_tool_calls": None})
    # The whole request: a stream that ends itself is not read to its end.
    return measure.timed(lambda: measure.ask(app(measure.Stream((), messages)), _OFFERING))


def run(*, smoke: bool) -> Table:
    """The dearest kinds of output, by their factor over prose."""
    size = 2_000 if smoke else 40_000
    repeats = 1 if smoke else 2
    cases = list(_cases())[:: 20 if smoke else 1]
    prose = (material.PROSE * (2 * size // len(material.PROSE) + 1))[: 2 * size]
    rows = []
    for case in cases:
        works = [_time(case.text(size)), _time(case.text(2 * size)), _time(prose)]
        once, twice, plain = measure.best(works, repeats)
        if not smoke and twice > _DOUBTFUL * once:
            # An interruption, or a fault? It hits the longer of the two more often: more tries tell.
            once, twice, plain = measure.best(works, 5 * repeats)
        rows.append((twice / plain, twice / once, case.name, twice / (2 * size)))
    rows.sort(reverse=True)
    table = Table("Hostile output, auto", ("ns a character", "x prose; x time for x 2"))
    for factor, growth, name, seconds in rows[:_SHOWN]:
        table.add(name, f"{seconds * 1e9:.0f}", f"{factor:.1f}; {growth:.1f}", "<= 40; 2.4")
    _, growth, name, _ = max(rows, key=lambda row: row[1])
    table.add(f"the most growth of {len(rows)} kinds: {name}", "", f"{growth:.1f}", "<= 2.4")
    return table


if __name__ == "__main__":
    from .hostile_kinds import main

    raise SystemExit(main())
