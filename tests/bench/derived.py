"""Time a chunk inside of a call's arguments, in families derived from templates beside built-in ones of the form."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.template import sources

from ..formats.template import templates
from . import each, material
from .report import Table

# A derived form, and the built-in family whose form is most like it. No built-in reader fits these templates.
_PAIRS = {
    "json": "hermes",
    "named": "deepseek_v31",
    "lines": "qwen3_coder",
    "pairs": "glm45",
    "typed": "deepseek_v32",
    "python": "pythonic",
}


def run(*, smoke: bool) -> Table:
    """Each pair, by the factor over one typed decode. A derived family is not to be much dearer than its like."""
    repeats, size = (1, 400) if smoke else (40, 2500)
    heads = ("a long string (built-in)", "short values (built-in)")
    table = Table("Arguments, in derived families: x one typed decode a chunk", heads)
    arguments = material.file_arguments(size), material.field_arguments(size)
    for form, name in _PAIRS.items():
        with tempfile.TemporaryDirectory() as folder:
            config = {"chat_template": templates.READ[form], "eos_token": "<|im_end|>"}
            Path(folder, "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
            derived = sources.required(folder)
            cells: list[str] = []
            for given, mark in zip(arguments, each.MARKS, strict=True):
                own = each.ratio(derived, given, mark, repeats, format="template", template=folder)
                like = each.ratio(registry.get(name), given, mark, repeats, format=name)
                cells.append(f"{own:.2f} ({like:.2f})")
        table.add(f"{form}, beside {name}", cells[0], cells[1], "<= 5")
    return table
