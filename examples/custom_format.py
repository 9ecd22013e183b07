"""A format of your own: calls as `<<call>> {"name": …, "arguments": …} <<end>>`.

A package makes it known by an entry point in its pyproject.toml, and the middleware takes it by that name:

    [project.entry-points."toolcall_middleware.formats"]
    guillemets = "custom_format:GUILLEMETS"

    pip install . && TOOLCALL_FORMAT=guillemets toolcall-middleware serve --upstream http://127.0.0.1:8000/v1

Without a package, where Python finds this file: TOOLCALL_FORMAT=custom_format:GUILLEMETS.
"""

from __future__ import annotations

from toolcall_middleware.formats.family import Family
from toolcall_middleware.formats.syntax.json import CALL, Json

GUILLEMETS = Family(
    name="guillemets",
    about="JSON objects between `<<call>>` and `<<end>>`",
    calls=Json(call=f"<<call>> {CALL} <<end>>"),
    prompt="You can call these tools:\n{tools}\n\nA call looks like this: {example}",
    special_tokens=False,  # true sends skip_special_tokens=false: the tokenizer's own markers must not be left out
)
