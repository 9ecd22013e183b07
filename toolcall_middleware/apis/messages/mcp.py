"""Which tools of MCP servers a request lets the upstream call, as far as it says so itself.

https://platform.claude.com/docs/en/agents-and-tools/mcp-connector: a toolset in `tools` (`default_config`, `configs`),
or, in the API's older form, the server's own `tool_configuration`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TOOLSET = "mcp_toolset"


def tools_of_set(toolset: Mapping[str, Any]) -> list[str] | None:
    """The tools that a toolset enables by name; None where it may enable others, too."""
    default, configs = toolset.get("default_config"), toolset.get("configs")
    if not isinstance(default, dict) or default.get("enabled") is not False or not isinstance(configs, dict | None):
        return None
    named = configs or {}
    return [
        name for name, config in named.items() if not isinstance(config, dict) or config.get("enabled") is not False
    ]


def tools_of_server(server: Mapping[str, Any], toolsets: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """The tools of a server that can be called; None where these may be any. toolsets: those of the request."""
    own = [toolset for toolset in toolsets if toolset.get("mcp_server_name") == server.get("name")]
    if own:
        found = [tools_of_set(toolset) for toolset in own]
        return None if None in found else [name for names in found for name in names or ()]
    given = server.get("tool_configuration")
    if not isinstance(given, dict):
        return None
    if given.get("enabled") is False:
        return []
    names = given.get("allowed_tools")
    known = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if known else None
