"""Sphinx's configuration: `nox -s docs` builds the site. Texts are Markdown (MyST), so that they read well unbuilt."""

from sphinx.application import Sphinx

import toolcall_middleware
from toolcall_middleware.errors import CODES

project = "toolcall-middleware"
author = "the authors of toolcall-middleware"
release = toolcall_middleware.__version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Links to files outside of the site (examples, CHANGELOG) are links into the repository; a test looks that they exist.
suppress_warnings = ["myst.xref_missing", "toc.excluded"]

html_theme = "furo"
html_title = "toolcall-middleware"
html_extra_path = ["llms.txt"]
html_static_path: list[str] = []
html_show_sourcelink = False

# What people search for, and the heading that answers it. The search of the site skips numbers, but for the index.
SEARCHED_FOR = {
    "how-to/no-calls": ("# My model does not call: what now", ["model does not call", "no tool calls"]),
    "faq": ('## Docker, 502, "connection refused"', ["docker", "502", "connection refused"]),
    "reference/errors": ("# Errors", sorted({str(code.status) for code in CODES.values()} - {"502"})),
}


def index(_app: Sphinx, page: str, source: list[str]) -> None:
    """Put the words of SEARCHED_FOR into the index, below their heading."""
    heading, words = SEARCHED_FOR.get(page, ("", []))
    if words:
        before, found, rest = source[0].partition(f"{heading}\n")
        assert found, f"{page}: no heading {heading!r}"  # noqa: S101 - the build fails
        source[0] = f"{before}{found}\n```{{index}} ! {', ! '.join(words)}\n```\n{rest}"


def setup(app: Sphinx) -> None:
    """Sphinx calls it before it reads a page."""
    app.connect("source-read", index)
