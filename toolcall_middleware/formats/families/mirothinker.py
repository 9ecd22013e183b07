"""MiroMind's MiroThinker: a server, a tool's name and JSON, each in a tag, within `<use_mcp_tool>`."""

from __future__ import annotations

import re

from ..family import Family
from ..prompt.tool_results import RESULTS_FOLLOW
from ..syntax.named import Named
from ..syntax.openers import opener
from ..syntax.slots import slot_calls

_SERVER = "generic-extras"  # where its template puts tools that it knows nothing of

_CALLS = Named(
    open="<use_mcp_tool>\n",
    call=f"<server_name>{_SERVER}</server_name>\n<tool_name>{{name}}</tool_name>\n"
    "<arguments>\n{arguments}\n</arguments>",
    between="\n",
    close="\n</use_mcp_tool>",
)

_READ = slot_calls(
    call=re.compile(
        r"(?:<server_name>[^<]{0,256}</server_name>[ \t\r\n]{0,64})?"
        r"<tool_name>[ \t\r\n]{0,64}(?P<name>[^<\s](?:[^<\n]{0,254}[^<\s])?)[ \t\r\n]{0,64}</tool_name>"
        r"[ \t\r\n]{0,64}<arguments>"
    ),
    call_heads=("<server_name>", "<tool_name>"),
    # Each part takes all that it can: nothing is tried twice.
    call_begun=re.compile(r"<(?:server|tool)_name>[^<]{0,384}+(?:</?+[a-z_]{0,16}+>?+[^<]{0,384}+){0,4}+"),
    slot=re.compile(r"(?!)"),
    slot_heads=(),
    value_close="</arguments>",
    call_close="</arguments>",
    close=_CALLS.closers[-1],
)

# llama.cpp: models/templates/MiroThinker-v1.jinja (the calls; the words are ours)
MIROTHINKER = Family(
    name="mirothinker",
    about="`<tool_name>` and JSON in `<arguments>` within `<use_mcp_tool>`: MiroThinker",
    models={"mirothinker": "[llama.cpp] MiroThinker-v1"},
    calls=_CALLS,
    auto_openers=(opener(_CALLS.marker, _READ),),
    prompt=f"""\
# Tools

Tools belong to servers. These are the tools, each as one line of JSON:

## Server name: {_SERVER}
{{tools}}

To use a tool, name its server and itself and give its arguments as one JSON object, in these tags, at the end of your \
answer:
{{example}}

"""
    + RESULTS_FOLLOW,
    answer=f"the call within {_CALLS.marker}{_CALLS.closers[-1]} tags",
    noun="tool",
)

FAMILIES = (MIROTHINKER,)
