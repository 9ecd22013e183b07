"""Qwen3-Coder's calls, which other models write too, and calls in the tag of the tool's name.

    <function=bash>
    <parameter=command>ls</parameter>
    </function>

    <bash>
    <command>ls</command>
    </bash>

In the second a slot may be Qwen's, or JSON be in place of all slots.
"""

from __future__ import annotations

from ...parsing.text.grammar import Opener, Where
from .slots import Slots

NAME = r"\w[\w.\-]{0,63}"
"""Pattern of a name in such a tag."""

_CALL = "<tool_call>\n<function={name}>\n{slots}</function>\n</tool_call>"
_SLOT = "<parameter={key}>\n{value}\n</parameter>\n"
_NOISE = ("</function_invocation>",)  # Qwen 3.6, in addition to the others
FUNCTIONS = Slots(call=_CALL, slot=_SLOT, name_in_slot=True, noise=_NOISE, style="qwen_xml")


def tool_tag(read: Slots) -> Opener:
    """The tag of an offered tool, first on its line; `read` reads the call."""
    return Opener(
        pattern=rf"<(?P<tool>{NAME})>",
        partial=rf"<(?P<tool>(?:{NAME})?)",
        where=Where.LINE,
        named=True,
        consume=False,
        body=read,
    )


TOOL_TAG = tool_tag(FUNCTIONS)
FREE_TOOL_TAG = tool_tag(Slots(call=_CALL, slot=_SLOT, free=True))
"""The same with parameters that the tool does not declare."""
