"""The pictures that are drawn show what stands in the READMEs, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from tests import wire_picture
from tests.bench import plot
from tests.bench.report import README, Row, Table

DOCS = Path(__file__).parents[2] / "docs"


def test_the_plots_are_those_of_the_tables(tmp_path: Path) -> None:
    plot.main(tmp_path)
    for name in plot.PLOTS:
        drawn = (tmp_path / name).read_text("utf-8")
        assert README.with_name(name).read_text("utf-8") == drawn, "run `python -m tests.bench.plot`"


def test_each_figure_of_a_table_is_in_its_plot() -> None:
    tables = {table.title: table for table in plot.read_tables(README.read_text("utf-8"))}
    for name, (title, _) in plot.PLOTS.items():
        table = next(table for known, table in tables.items() if known.startswith(title))
        shown = ET.parse(README.with_name(name))  # noqa: S314 - our own file
        texts = [element.text for element in shown.iter("{http://www.w3.org/2000/svg}text")]
        figures = [row for row in table.rows if re.fullmatch(r"\d+\.\d+", row.ratio) and float(row.ratio) > 0]
        assert len(figures) > 10
        for row in figures:
            assert texts[texts.index(row.what) + 1] == f"{float(row.ratio):g}"


def test_text_of_a_table_is_never_markup() -> None:
    table = Table("a <b> & c", ("", 'x "y"'), [Row("<script>", "1", "2.0")])
    drawn = ET.fromstring(plot.bars(table, note="<i>"))  # noqa: S314 - our own text
    assert drawn.get("aria-label") == 'a <b> & c: x "y"'
    assert not list(drawn.iter("{http://www.w3.org/2000/svg}script"))
    assert "prefers-color-scheme: dark" in plot.bars(table)


def test_the_site_shows_each_plot() -> None:
    page = (DOCS / "explanation" / "speed.md").read_text("utf-8")
    for name in plot.PLOTS:
        assert f"](../../tests/bench/{name})" in page


def test_the_picture_of_the_wire_is_that_of_the_readme() -> None:
    drawn = wire_picture.picture((DOCS.parent / "README.md").read_text("utf-8"))
    assert wire_picture.PATH.read_text("utf-8") == drawn, "run `python -m tests.wire_picture`"
    texts = [element.text or "" for element in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - our own text
    assert '    "name": "get_weather",' in texts
    assert r'      "{\"city\":\"Paris\"}"' in texts
    assert "prefers-color-scheme: dark" in drawn
    assert "](../images/wire.svg)" in (DOCS / "explanation" / "wire.md").read_text("utf-8")
