"""The names of JSON members that may carry tools, in any API: what a guard looks for in what is not read here."""

from __future__ import annotations

import re

CARRIERS = frozenset({
    "tools", "functions", "mcp_servers", "function_declarations", "functiondeclarations", "toolconfig", "tool_config",
})  # fmt: skip
"""Names, in lower case, that carry tools and nothing else."""
READS_CALLS = frozenset({"parse_tool_calls"})
"""Names, in lower case, of switches: a backend (llama.cpp) then reads calls in what the model writes, whatever tools it
was told of."""
SPEAKS_OF_TOOLS = re.compile(r"tool|function|mcp_?server", re.IGNORECASE)
"""Found in each name that may carry tools: `tool_calls`, `toolConfig`, `custom_tools`."""
