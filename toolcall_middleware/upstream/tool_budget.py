"""The tools that the model is shown, over all attempts of a request: the settings `tools_budget` and `choose`.

Within a budget of tokens tools are shown in one of four forms, in this order: in full; with schemas reduced to what a
prompt needs; with descriptions shortened at the end of a sentence; the last tools by name and one line each, in the
description of `find_tools`. The form depends on the tools and the budget alone, so that the front of the prompt keeps
its bytes from turn to turn. The definitions of deferred tools that are found, called or named follow in the
conversation, and stay there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ..formats.base import ToolFormat
from ..formats.prompt.escaping import as_data, describe, dump
from ..json_schema.compact import shortest_schema
from ..json_schema.validate_arguments import UNCHECKED, checker_for
from ..json_schema.walk import changed
from ..lru_cache import LRUCache
from ..model import ChoiceMode, Tool, ToolCall, ToolResult, ToolSet
from ..parsing.values.typing import Coercion
from ..request.messages import calls_of
from ..request.parse import ChatRequest
from ..response.inner_calls import Asked, InnerTools
from ..settings import Settings
from ..usage.tokenizers.base import APPROXIMATE
from ..usage.tokenizers.vocabularies import load
from ..wire import openai
from ..wire.openai import new_call_id
from .backend_memory import WINDOW, BackendMemory
from .history import text_of

MAX_SEARCHES = 3
"""The maximum of answers of `find_tools` in one exchange."""
RESPOND = Tool(
    "respond",
    "Answer in words. Call this where no other tool fits.",
    {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The whole answer."}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
_SHARE = 3
"""The tools may take one part in so many of the window (`auto`)."""


class ToolBudget:
    """The tools of one request within its budget, over all attempts."""

    def __init__(self, chat: ChatRequest, settings: Settings, memory: BackendMemory) -> None:
        self._chat = chat
        self._settings = settings
        self._memory = memory
        self._tools = ShownTools(chat.tools.tools)
        self._defined: dict[str, Tool] = {}  # deferred tools whose definitions the model was given
        self._searches = 0
        self._native = False
        self.block: ToolFormat | None = None
        """The format that writes the tools in the prompt, if it is not the prompt's format."""
        self.chooses = False
        """The answer is constrained to a call: of a tool, or of `respond`."""
        self._read = self._shown = chat

    @property
    def form(self) -> str:
        """The form in which the tools are shown."""
        return self._tools.form

    @property
    def note(self) -> str:
        """The part of `x-toolcall` about deferred tools."""
        if not self._tools.deferred:
            return ""
        hidden = len(self._tools.deferred) - len(self._defined)
        return f"; tools_shown={len(self._chat.tools) - hidden}; tools_deferred={hidden}"

    @property
    def inner(self) -> InnerTools | None:
        """The calls that the client does not see; None if there are none."""
        if not (self._tools.deferred or self.chooses):
            return None
        answers = self._searches < MAX_SEARCHES
        unshown = self._tools.deferred.keys() - self._defined.keys() - self._chat.custom
        return InnerTools(
            find=FIND_TOOLS if self._tools.deferred else "",
            respond=RESPOND.name if self.chooses else "",
            answers=answers,
            unshown=unshown if answers else (),
            faults=self._faults,
        )

    def _faults(self, name: str, arguments: str) -> list[str]:
        """The faults of a call's arguments, after they are coerced to the types of its schema."""
        schema = self._chat.tools.by_name[name].parameters
        if self._settings.coerce_arguments:
            coercion = Coercion(schema)
            arguments = coercion.feed(arguments) + coercion.finish()
        faults = checker_for(self._chat.tools_raw, self._chat.tools).faults(name, arguments)
        return [fault for fault in faults if fault not in UNCHECKED]

    def by_prompt(self, fmt: ToolFormat) -> None:
        """Write the tools into the prompt, in this format."""
        brief: ToolFormat = getattr(fmt, "brief", None) or fmt
        full, render = (functools.partial(one.render_tools, parallel=True) for one in (fmt, brief))
        self._show(full, render, (fmt.render_tools, self._chat.tools_raw))
        self.block = None if self._tools.form == "full" else brief
        self._native = False
        places = self._mentions()
        self._shown = replace(self._shown, messages=with_definitions(self._chat.messages, places))
        self.chooses = self._may_choose()

    @property
    def read(self) -> ChatRequest:
        """The request for reading the answer: it has the middleware's tools beside the client's."""
        read = self._read
        return replace(read, tools=_more(read.tools), listed=_more(read.listed)) if self.chooses else read

    @property
    def held(self) -> ChatRequest:
        """The request that the constraint and the prompt's text for `tool_choice` are made of."""
        read = self.read
        return replace(read, choice=replace(read.choice, mode=ChoiceMode.REQUIRED)) if self.chooses else read

    @property
    def shown(self) -> ChatRequest:
        """The request as the model gets it: the tools in the front of the prompt, and the messages with the definitions
        of other tools.
        """
        shown = self._shown
        raw = shown.tools_raw + b"\0respond"
        return replace(shown, tools=_more(shown.tools), tools_raw=raw) if self.chooses else shown

    def _may_choose(self) -> bool:
        """Whether an answer that needs no call can be constrained to a call, as `respond` can hold text."""
        chat, settings = self._chat, self._settings
        free = chat.choice.mode is ChoiceMode.AUTO and chat.choice.allowed is None
        own = RESPOND.name in chat.listed.by_name or chat.answer_schema is not None
        return settings.choose and settings.constrain != "off" and free and not own

    def natively(self) -> None:
        """Send the tools natively. Deferred tools that the conversation mentions follow the others."""
        self._show(_as_json, _as_json, self._chat.tools_raw)
        self._mentions()
        self._native, self.chooses = True, False
        self._append_defined()

    def _show(self, full: Callable[[Sequence[Tool]], str], render: Callable[[Sequence[Tool]], str], key: Any) -> None:
        chat = self._chat
        self._read = self._shown = chat
        budget = _budget(self._settings, self._memory.recall(chat.model, WINDOW)) if chat.offers_tools else None
        if budget is None:
            return
        # `upstream` has no tokenizer here.
        setting = self._settings.tokenizer
        count = (APPROXIMATE if setting == "upstream" else load(setting)).count_again
        tools, may_defer = chat.tools.tools, chat.n == 1 and FIND_TOOLS not in chat.listed.by_name
        key = (key, tuple(chat.tools.by_name), setting, budget, may_defer)
        shown = _SHOWN.get(key)
        if shown is None:
            fits = count(full([tool for tool in tools if not tool.loaded])) <= budget
            shown = ShownTools(tools)
            if not fits:
                shown = _within(tools, budget, lambda some: count(render(some)), may_defer=may_defer)
            _SHOWN.put(key, shown, size=len(tools))
        self._tools = shown
        if shown.form != "full":
            raw = b"%s\0%d" % (chat.tools_raw, budget)
            self._shown = replace(chat, tools=ToolSet.of(shown.front), tools_raw=raw)
        if shown.deferred:
            find = shown.front[-1]
            listed = ToolSet.of([*chat.listed.tools, find])
            self._read = replace(chat, tools=ToolSet.of([*tools, find]), listed=listed)

    def _mentions(self) -> dict[int, list[Tool]]:
        choice = self._chat.choice
        wanted = choice.allowed or ({choice.name} if choice.name else frozenset())
        deferred = self._tools.deferred
        places = mentions(self._chat.messages, deferred, wanted) if deferred else {}
        self._defined = {tool.name: tool for tools in places.values() for tool in tools}
        return places

    def _append_defined(self) -> None:
        if self._native and self._defined:
            self._shown = replace(self._shown, tools=ToolSet.of([*self._tools.front, *self._defined.values()]))

    def answer(self, asked: Asked, fmt: ToolFormat) -> tuple[list[Message], list[Message]]:
        """A call that the middleware answers, with its result: as text in this format, and as tool messages."""
        # Half of a surrogate pair cannot be sent back.
        said, arguments = (part.encode("utf-8", "replace").decode() for part in (asked.said, asked.arguments))
        text = self._result(asked)
        call = ToolCall(asked.name, arguments, new_call_id())
        result = ToolResult(call.name, text, call.id)
        written = said + fmt.render_calls([call])
        function = {"name": call.name, "arguments": call.arguments}
        calls = [{"id": call.id, "type": "function", "function": function}]
        return (
            [{"role": "assistant", "content": written}, {"role": "user", "content": fmt.render_results([result])}],
            [
                {"role": "assistant", "content": said or None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": call.id, "content": text},
            ],
        )

    def _result(self, asked: Asked) -> str:
        self._searches += 1
        deferred = self._tools.deferred
        if asked.faults:
            tools = [deferred[asked.name]]
        else:
            value = openai.read_value(asked.arguments.encode("utf-8", "replace"))
            query = value.get("query") if isinstance(value, dict) else None
            tools = found(query if isinstance(query, str) else asked.arguments, deferred)
        self._defined.update({tool.name: tool for tool in tools})
        self._append_defined()
        if asked.faults:
            return f"The arguments do not fit: {asked.faults}. The definition:\n{definitions(tools)}\nCall it again."
        if not tools:
            return "No tool fits. Call one that you know, search with other words, or answer in words."
        return f"{definitions(tools)}\nCall the one that fits."


def _more(tools: ToolSet) -> ToolSet:
    return ToolSet.of([*tools.tools, RESPOND])


def _budget(settings: Settings, window: int | None) -> int | None:
    """The number of tokens that the tools may take; None without a budget."""
    budget = settings.tools_budget
    if budget == "auto":
        return window // _SHARE if window else None
    return budget if isinstance(budget, int) else None


def _as_json(tools: Sequence[Tool]) -> str:
    return msgspec.json.encode([describe(tool) for tool in tools]).decode()


FIND_TOOLS = "find_tools"
LIMITS = (600, 300, 150, 80)
"""Maximum characters of a description, in the order in which they are tried."""
_LONGEST_LINE = 80  # characters of a deferred tool's description
_SENTENCE_END = re.compile(r"[.!?。！？](?=\s|$)|\n")
_SEARCH = (
    "Get the definitions of more tools. Call this before one of the tools below, with what you want to do or with the "
    "tool's name. The tools:\n"
)
_QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool is to do, or its name."}},
    "required": ["query"],
}
Measure = Callable[[Sequence[Tool]], int]
"""Returns the number of tokens that tools take in the prompt."""


@dataclass(frozen=True, slots=True)
class ShownTools:
    """What the model is shown of a request's tools."""

    front: tuple[Tool, ...]
    """The tools in the front of the prompt, in the form in which they are shown."""
    form: str = "full"
    """`full`, `compact`, `short` or `deferred`."""
    deferred: Mapping[str, Tool] = field(default_factory=dict)
    """The tools that `find_tools` finds, by name, with descriptions of the first of `LIMITS`."""


def compact(tools: Iterable[Tool]) -> list[Tool]:
    """The tools with schemas reduced to what a prompt needs."""
    return [replace(tool, parameters=shortest_schema(tool.parameters)) for tool in tools]


def shortened(tools: Iterable[Tool], limit: int) -> list[Tool]:
    """The compact tools with descriptions of at most `limit` characters, also those of parameters."""

    def shorter(node: dict[str, Any]) -> dict[str, Any]:
        text = node.get("description")
        return {**node, "description": first_sentences(text, limit)} if isinstance(text, str) else dict(node)

    return [
        replace(
            tool, description=first_sentences(tool.description, limit), parameters=changed(tool.parameters, shorter)
        )
        for tool in compact(tools)
    ]


def first_sentences(text: str, limit: int) -> str:
    """The first sentences of `text`, at most `limit` characters; if the first is longer, its first words."""
    if len(text) <= limit:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, limit)]
    if ends and (kept := text[: ends[-1]].rstrip()):
        return kept
    return f"{text[: limit - 1].rpartition(' ')[0] or text[: limit - 1]}…"


_SHOWN: LRUCache[Any, ShownTools] = LRUCache(max_entries=64, max_size=1 << 13)
"""What is shown of tools, by the tools, how they are measured and the budget; sizes are numbers of tools."""


def _within(tools: Sequence[Tool], budget: int, measure: Measure, *, may_defer: bool) -> ShownTools:
    counted = [tool for tool in tools if not tool.loaded]
    if measure(compact(counted)) <= budget:
        return ShownTools(tuple(compact(tools)), "compact")
    for limit in LIMITS:
        if measure(shortened(counted, limit)) <= budget:
            return ShownTools(tuple(shortened(tools, limit)), "short")
    shortest = shortened(tools, LIMITS[-1])
    return _deferring(tools, shortest, budget, measure) if may_defer else ShownTools(tuple(shortest), "short")


def _deferring(tools: Sequence[Tool], shortest: Sequence[Tool], budget: int, measure: Measure) -> ShownTools:
    """Show the first tools that fit, defer the others: agents send their own tools before those of servers."""
    left = budget - measure([find_tools(tools)])
    nothing, no_line = measure([]), measure([find_tools([])])
    front: list[Tool] = []
    deferred: dict[str, Tool] = {}
    for tool, short, longer in zip(tools, shortest, shortened(tools, LIMITS[0]), strict=True):
        line = measure([find_tools([tool])]) - no_line
        cost = measure([short]) - nothing - line
        if tool.loaded or (cost <= left and not deferred):
            front.append(short)
            left -= 0 if tool.loaded else cost
        else:
            deferred[tool.name] = longer
    return ShownTools((*front, find_tools(deferred.values())), "deferred", deferred)


def find_tools(tools: Iterable[Tool]) -> Tool:
    """The tool `find_tools`, which finds these tools."""
    lines = (f"- {tool.name}: {first_sentences(tool.description, _LONGEST_LINE)}" for tool in tools)
    return Tool(FIND_TOOLS, _SEARCH + "\n".join(line.replace("\n", " ") for line in lines), _QUERY)


_MOST_FOUND = 5
_LONGEST_QUERY = 400  # characters
_MOST_WORDS = 32
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^\s\"'`{}<>(),;]+")
Message = dict[str, Any]


def found(query: str, deferred: Mapping[str, Tool]) -> list[Tool]:
    """The deferred tools that match a query best: those that it names, else those that share most of its words."""
    query = query[:_LONGEST_QUERY]
    if named := [deferred[name] for name in dict.fromkeys(_NAME.findall(query)) if name in deferred]:
        return named[:_MOST_FOUND]
    spelled = _WORD.findall(query.lower().replace("_", " "))
    words = {word.rstrip("s") or word for word in spelled[:_MOST_WORDS]}
    scores = {name: _score(tool, words) for name, tool in deferred.items()}
    best = sorted((name for name in scores if scores[name]), key=lambda name: -scores[name])
    return [deferred[name] for name in best[:_MOST_FOUND]]


def _score(tool: Tool, words: Collection[str]) -> int:
    """The number of matches. A word in the name counts three times, one in a description or parameter's name once."""
    name = tool.name.lower()
    properties = tool.parameters.get("properties")
    about = " ".join([tool.description.lower(), *(properties if isinstance(properties, dict) else ())])
    return sum(3 * (word in name) + (word in about) for word in words if len(word) > 1)


def definitions(tools: Iterable[Tool]) -> str:
    """The definitions as text for the conversation, a line of JSON each."""
    return "\n".join(as_data(dump(describe(tool))) for tool in tools)


def mentions(
    messages: Sequence[Message], deferred: Mapping[str, Tool], wanted: Collection[str] = ()
) -> dict[int, list[Tool]]:
    """The deferred tools that the conversation calls or the user names, each once: by the index of the message that
    their definitions precede. It depends on nothing that comes later, so the prompt's beginning keeps its bytes.

    wanted: those that `tool_choice` names; their definitions come last.
    """
    left = dict(deferred)
    places: dict[int, list[Tool]] = {}
    pending: list[Tool] = []
    for at, message in enumerate(messages):
        role = message["role"]
        if pending and role != "tool":
            places[at], pending = pending, []
        names: Iterable[str] = ()
        if role == "assistant":
            names = [call["function"]["name"] for call in calls_of(message)]
        elif role == "user":
            names = _NAME.findall(text_of(message.get("content")))
        pending += [tool for name in names if (tool := left.pop(name.rstrip(".:!?"), None)) is not None]
    pending += [left[name] for name in deferred if name in wanted and name in left]
    if pending:
        places[len(messages)] = pending
    return places


def with_definitions(messages: Sequence[Message], places: Mapping[int, Sequence[Tool]]) -> list[Message]:
    """The messages with the definitions at their places, as user messages."""
    out: list[Message] = []
    for at in range(len(messages) + 1):
        if at in places:
            out.append({"role": "user", "content": f"These tools can be called too:\n{definitions(places[at])}"})
        out += messages[at : at + 1]
    return out
