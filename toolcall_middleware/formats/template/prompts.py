"""Writes a conversation as a checkpoint's chat template renders it: the text that a model was trained to go on from.

What a template understands is asked of it once, with the probes of the derivation: how it wants calls, whether it
presents tools and a system message at all, which markers end a turn.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import on_one_line
from .. import markup
from ..prompt import escaping
from ..prompt.tool_results import guarded
from . import probes, turns
from .probes import Dialect, context, named_id, said
from .render import TemplateRefusalError
from .turns import Turns, common_start

if TYPE_CHECKING:
    from .sources import Checkpoint

_log = logging.getLogger(__name__)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 9
"""Of letters and digits, as Mistral's templates demand; others take any."""

_LEAST_END = 4
"""Characters of a marker that ends a turn."""
_ODD = re.compile(r"[^\w\s]")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manner:
    """What a template understands."""

    plain: bool
    """It renders a conversation without tools."""
    tools: bool
    """It presents tools."""
    system: bool
    """It knows system messages."""
    turns: Turns | None
    """How it renders turns with calls; None: it writes no calls."""
    ends: tuple[str, ...] = ()
    """Markers that are only at the end of a turn of the assistant."""


@dataclass(frozen=True, slots=True)
class Written:
    """A prompt. own: the tools and calls are in the template's own words. opened: the tags of a thought that it has
    opened, in which the answer begins. ends: what ends a turn.
    """

    text: str
    own: bool
    opened: tuple[str, str] | None
    ends: tuple[str, ...]


class TemplatePrompts:
    """Prompts of one checkpoint. Threads may share it."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    @functools.cached_property
    def manner(self) -> Manner:
        """What the template understands, asked once. Raises FormatError where it cannot be rendered at all."""
        return _manner_of(self._checkpoint)

    def write(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        plain: Sequence[Message],
        more: Mapping[str, Any],
    ) -> Written:
        """The prompt that an answer follows.

        messages: the conversation, with calls and results as OpenAI's API has them (arguments as text). tools: its
        entries for tools. plain: the same conversation without either, for a template that does not understand them.
        more: what else the template is given. Takes time. Raises TemplateRefusalError and FormatError.
        """
        manner = self.manner
        speaks = any(message.get("tool_calls") or message["role"] == "tool" for message in messages)
        text = None
        if (manner.tools or not tools) and (manner.turns is not None or not speaks):
            try:
                text = self._rendered(messages, tools or None, _filled(tools), more)
            except TemplateRefusalError as refusal:
                said_so = on_one_line(str(refusal))
                _log.info("The chat template refuses these messages (%s): calls and results go as text.", said_so)
        own = text is not None
        if text is None:
            text = self._rendered(plain, None, [], more)
        bos = self._checkpoint.template.special.get("bos_token", "")
        if self._checkpoint.engine_begins and bos:
            text = text.removeprefix(bos)
        return Written(text, own, _opened(text, manner), manner.ends)

    def _rendered(self, messages: Sequence[Message], tools: Any, others: Any, more: Mapping[str, Any]) -> str:
        """The messages with the tools, or with `others` where the template refuses those. Raises its first refusal."""
        wanted = _as_wanted(messages, self.manner)
        usual = {"add_generation_prompt": True, **more, "messages": wanted, "documents": None}
        try:
            return self._checkpoint.template.write({**usual, "tools": tools})
        except TemplateRefusalError as first:
            try:
                return self._checkpoint.template.write({**usual, "tools": others})
            except TemplateRefusalError:
                raise first from None


def _manner_of(checkpoint: Checkpoint) -> Manner:
    template = checkpoint.template
    user, answer = said(probes.USER), said(probes.CONTENT, "assistant")
    thoughtful = [user, {**answer, **dict.fromkeys(probes.THOUGHT_FIELDS, probes.THOUGHT)}, user, answer]
    and_tools, with_system, shown, bare, thinking = template.render([*probes.FRONTS, context(thoughtful)])
    found = turns.read(template)
    tools = shown is not None and all(name in shown for name in probes.NAMES)
    knows_system = any(text is not None and probes.SYSTEM in text for text in (with_system, and_tools))
    if isinstance(found, str):
        return Manner(bare is not None, tools, knows_system, None)
    # A marker that ends texts only, or is within a turn as harmony's between thought and call, would end too early.
    layout = found.layout
    turn = (thinking or "").split(probes.CONTENT)[0].partition(probes.USER)[2]
    within = layout.opening + layout.call + (layout.between or "") + turn[len(common_start(turn, found.begin)) :]
    # A marker that text may hold does not end a turn.
    ends = [end for end in found.ends if len(end) >= _LEAST_END and _ODD.search(end) is not None]
    only = tuple(end for end in ends if end in found.end and end not in within)
    return Manner(bare is not None, tools, knows_system, found, only)


def _filled(tools: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The tools with what some templates take for granted: a type and a description of every parameter."""
    made = []
    for tool in tools:
        function = tool["function"]
        schema = function.get("parameters") or {}
        properties = schema.get("properties")
        known = {
            name: {"type": "string", "description": "", **(value if isinstance(value, dict) else {})}
            for name, value in (properties if isinstance(properties, dict) else {}).items()
        }
        parameters = {"type": "object", "required": [], **schema, "properties": known}
        made.append({**tool, "function": {"description": "", **function, "parameters": parameters}})
    return made


def _opened(text: str, manner: Manner) -> tuple[str, str] | None:
    """The tags of a thought that the prompt's end opens."""
    end = text.rstrip()
    own = None if manner.turns is None else manner.turns.reasoning
    pairs = (*((own,) if own else ()), *markup.gathered().reasoning)
    return next((pair for pair in pairs if end.endswith(pair[0].strip())), None)


def _as_wanted(messages: Sequence[Message], manner: Manner) -> list[Message]:
    """The messages in the template's own dialect, with ids of calls that every template takes, and with the names of
    the calls beside their results, which cannot end themselves.
    """
    found = manner.turns
    dialect, result = (Dialect(), None) if found is None else (found.dialect, found.result)
    ids: dict[str, str] = {}
    names: dict[str, str] = {}
    made: list[Message] = []
    for message in messages:
        if calls := message.get("tool_calls"):
            for call in calls:
                own, name = call["id"], call["function"]["name"]
                ids[own], names[own] = named_id(name, len(ids)) if dialect.named_ids else _short(own), name
            content = message.get("content") or (None if dialect.no_content else "")
            made.append({**message, "content": content, "tool_calls": [_call(each, ids, dialect) for each in calls]})
        elif message["role"] == "tool":
            own, content = message["tool_call_id"], message["content"]
            if result is not None and not escaping.has_markup(result[1]):
                content = guarded(content, result[1])
            shown = {"name": names.get(own, ""), **message, "content": content}
            made.append({**shown, "tool_call_id": ids.get(own) or _short(own)})
        else:
            made.append(message)
    if not manner.system and made and made[0]["role"] == "system":
        front = made.pop(0)["content"]
        if made and made[0]["role"] == "user":
            made[0] = {**made[0], "content": f"{front}\n\n{made[0]['content']}"}
        else:
            made.insert(0, said(front))
    return made


def _call(call: Mapping[str, Any], ids: Mapping[str, str], dialect: Dialect) -> Message:
    arguments: Any = call["function"]["arguments"] or "{}"
    if not dialect.as_text:
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(arguments)
            arguments = value if isinstance(value, dict) else arguments
    return {**call, "id": ids[call["id"]], "function": {**call["function"], "arguments": arguments}}


def _short(call_id: str) -> str:
    """An id that is the same for the same id."""
    if len(call_id) == _ID_LENGTH and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.blake2b(call_id.encode("utf-8", "replace"), digest_size=8).digest())
    return "".join(_DIGITS[number // len(_DIGITS) ** place % len(_DIGITS)] for place in range(_ID_LENGTH))
