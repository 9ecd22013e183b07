"""What the model calls a tool, and what the client calls it.

Chat completions have one list of names, Responses have namespaces and tools without a name. A name inside a namespace
is offered as `NAMESPACE__NAME`, in the characters and the length that every engine takes. It depends only on the tools
that are offered, in their order, so that it is the same at each turn.
"""

from __future__ import annotations

import enum
import hashlib
import re
from dataclasses import dataclass

MAX_NAME = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8


class Kind(enum.Enum):
    """How a tool takes its input and what its calls are: the types of their items are `ITEM_TYPES`."""

    FUNCTION = "function"
    CUSTOM = "custom"
    LOCAL_SHELL = "local_shell"
    SHELL = "shell"
    APPLY_PATCH = "apply_patch"
    TOOL_SEARCH = "tool_search"


ITEM_TYPES: dict[Kind, str] = {
    Kind.FUNCTION: "function_call",
    Kind.CUSTOM: "custom_tool_call",
    Kind.LOCAL_SHELL: "local_shell_call",
    Kind.SHELL: "shell_call",
    Kind.APPLY_PATCH: "apply_patch_call",
    Kind.TOOL_SEARCH: "tool_search_call",
}


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool as the client knows it. Kinds other than functions and custom tools have no name of their own there."""

    kind: Kind
    name: str
    namespace: str | None = None


class Names:
    """The names of a request's tools. `by_offered`: the client's tool behind a name that the model uses."""

    def __init__(self) -> None:
        self.by_offered: dict[str, ClientTool] = {}
        self._offered: dict[tuple[str | None, str, bool], str] = {}

    def offer(self, tool: ClientTool) -> str:
        """The name for a tool of the request. A plain function or custom tool keeps its own, also where it is taken:
        two tools of one name are an error that the tools' own check finds.
        """
        key = _key(tool)
        found = self._offered.get(key)
        if found is None:
            # What names itself keeps its name. Of the others none may take a name that is in use.
            found = self._name(tool)
            self._offered[key] = found
            self.by_offered.setdefault(found, tool)
        return found

    def known(self, kind: Kind, name: str, namespace: str | None = None) -> str:
        """The name for a call in the history, whose tool may not be offered any more."""
        if namespace == name and (None, name, False) in self._offered:
            namespace = None  # a function that was loaded by itself may have its own name as namespace
        return self._offered.get(_key(tool := ClientTool(kind, name, namespace))) or self._name(tool)

    def _name(self, tool: ClientTool) -> str:
        return tool.name if _names_itself(tool) else self._free(tool)

    def _free(self, tool: ClientTool) -> str:
        name = _joined(tool)
        if len(name) > MAX_NAME or name in self.by_offered:
            mark = hashlib.sha256(f"{tool.kind.value}\0{tool.namespace}\0{tool.name}".encode()).hexdigest()[:_DIGEST]
            name = f"{name[: MAX_NAME - _DIGEST - 1]}_{mark}"
        return name


def _names_itself(tool: ClientTool) -> bool:
    return tool.namespace is None and tool.kind in (Kind.FUNCTION, Kind.CUSTOM)


def _key(tool: ClientTool) -> tuple[str | None, str, bool]:
    """Functions and custom tools share their names; the other kinds stand beside."""
    return tool.namespace, tool.name, tool.kind not in (Kind.FUNCTION, Kind.CUSTOM)


def _joined(tool: ClientTool) -> str:
    if tool.namespace is None:
        return tool.name
    space = tool.namespace.rstrip("_") or tool.namespace
    return _OTHER.sub("_", f"{space}__{tool.name}")
