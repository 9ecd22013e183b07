"""Sphinx's configuration: `nox -s docs` builds the site. Texts are Markdown (MyST), so that they read well unbuilt."""

import toolcall_middleware
from toolcall_middleware.settings import OPTIONS

project = "toolcall-middleware"
author = "the authors of toolcall-middleware"
release = toolcall_middleware.__version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
# Pages on what this version does not do are not shown.
if "faces" not in OPTIONS:
    exclude_patterns += [f"how-to/clients/{name}.md" for name in ("claude-code", "codex", "anthropic-sdk")]
    exclude_patterns += ["explanation/faces.md"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Links to files outside of the site (examples, CHANGELOG) are links into the repository; a test looks that they exist.
suppress_warnings = ["myst.xref_missing", "toc.excluded"]

html_theme = "furo"
html_title = "toolcall-middleware"
html_extra_path = ["llms.txt"]
html_static_path: list[str] = []
html_show_sourcelink = False
