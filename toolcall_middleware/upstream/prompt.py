"""The prompt, which replaces tools, calls and results in the request to the backend.

The tool block comes first and depends on the tools alone, so that a backend's prefix cache keeps working. What
`tool_choice` asks for comes last, before the text of the last user message: after it, small models take it for the
question (tests/bench/README.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..formats.prompt import escaping
from ..formats.registry import thoughts_of
from ..json_schema.compact import compact_schema
from ..lru_cache import LRUCache
from ..model import ChoiceMode
from ..request.tools import provider_tools
from ..wire import openai
from . import history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..formats.base import ToolFormat
    from ..model import Tool
    from ..request.parse import ChatRequest
    from ..settings import Settings
    from .raw_prompt import RawPrompt
    from .tool_budget import ToolBudget

_NOT_FOR_TEXT = frozenset({"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"})
_BARE = 'JSON of the form {"tool_calls": [{"name": "<tool>", "arguments": {...}}]}, whatever was said about tags'
_ANSWER = "nswer with nothing but JSON that fits this JSON Schema: "  # after "A" or "a"


class SentConversation:
    """The conversation as it is sent to the backend, natively or by prompt, with the messages that attempts add.

    messages: those of the current attempt; empty if the client's are sent unchanged. raw: set if a template writes the
    prompt. bare: the prompt asks for bare JSON.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, tools: ToolBudget) -> None:
        self._chat = chat
        self._settings = settings
        self._tools = tools
        self._added = ""  # the text that the prompt adds to the conversation
        self.messages: list[dict[str, Any]] = []
        self.raw: RawPrompt | None = None
        self.bare = False

    def natively(self) -> None:
        """Set the messages for a backend that takes tools."""
        settings = self._settings
        limit, own, foreign = settings.max_result_bytes, settings.rewrite_ids, settings.upstream_api != "openai"
        self.messages = history.for_backend(self._chat.messages, limit, own_ids=own, knows_errors=foreign) or []

    def by_prompt(self, fmt: ToolFormat, answer: Mapping[str, Any] | None, *, bare: bool) -> None:
        """Set the messages for a backend that takes no tools, without those that earlier attempts added.

        answer: the JSON Schema that the client asks of an answer in text. bare: required calls are constrained to bare
        JSON, whatever the format, and the prompt asks for the same.
        """
        tools, settings = self._tools, self._settings
        if settings.send == "completions":
            from .raw_prompt import raw_prompt  # with all that reads templates

            self.raw = raw_prompt(tools.shown, settings, fmt)
        self.bare = bare
        last = wish(tools.held, fmt, bare=bare)
        if answer is not None:
            words = f"If you call no tool, a{_ANSWER}" if tools.held.offers_tools else f"A{_ANSWER}"
            last = history.joined([last, words + escaping.as_data(escaping.dump(compact_schema(answer)))])
        # The front depends on the tools alone.
        front = _tool_block(tools.shown, tools.block or fmt, settings)
        self._added = history.joined([front, last])
        self.messages = self._plain(fmt, front)
        for messages in (self.messages, None if self.raw is None else self.raw.messages):
            if last and messages is not None:
                _put_before_last(messages, last)

    def _plain(self, fmt: ToolFormat, front: str) -> list[dict[str, Any]]:
        """The conversation for a text backend: the tool block precedes it.

        `messages=plain` gives at most one system message, then alternating roles, `role` and `content` alone.
        `messages=keep` keeps messages without calls and results unchanged, except the two that the prompt is
        added to.
        """
        chat, settings = self._tools.shown, self._settings
        limit, names = settings.max_result_bytes, chat.listed.by_name
        given = history.with_user(chat.messages) if getattr(fmt, "needs_user", False) else chat.messages
        if settings.messages == "keep":
            messages = history.without_calls(given, fmt, max_result_bytes=limit, offered=names)
        else:
            thoughts = thoughts_of(fmt, chat.model)
            system, messages = history.plain(
                given, fmt, max_result_bytes=limit, offered=names, thoughts=thoughts, model=chat.model
            )
            front = history.joined([front, system])
        if front:
            _put_in_front(messages, front, settings.system_role)
        return messages

    def go_on(self, more: list[dict[str, Any]], for_template: list[dict[str, Any]]) -> None:
        """Add messages at the end, for another attempt."""
        self.messages = [*(self.messages or self._chat.messages), *more]
        if self.raw is not None:
            self.raw.messages = [*self.raw.messages, *for_template]

    def injected(self, *, native: bool) -> str:
        """The text that is added to the conversation, if that is reported."""
        is_reported = self._settings.extension_field is not None and self.raw is None
        return self._added if is_reported and not native else ""

    def body(self, fmt: ToolFormat | None, extra: Mapping[str, Any]) -> bytes:
        """The body of the next attempt: the client's, its fields byte for byte and in order, without what such a
        backend refuses.

        fmt: the prompt's format; None for native tools. extra: fields to set, in the place where the client sent them;
        None removes a field. `drop_params` is applied last.
        """
        fields = self._native_fields() if fmt is None else self._text_fields(fmt)
        if self._chat.offers_tools:
            fields.pop("stop", None)  # a backend would cut calls at it: the middleware ends text itself
        for name, value in extra.items():
            if value is None:
                fields.pop(name, None)
            else:
                fields[name] = value
        for name in self._settings.drop_params:
            if name != "messages":
                fields.pop(name, None)
        if self.raw is not None:
            self.raw.plain = self.messages
            if self.raw.tools:
                fields["tools"] = openai.raw(self.raw.tools)
        return msgspec.json.encode(fields)

    def _text_fields(self, fmt: ToolFormat) -> dict[str, Any]:
        """The fields for a text backend."""
        chat = self._chat
        fields: dict[str, Any] = {name: value for name, value in chat.fields.items() if name not in _NOT_FOR_TEXT}
        fields["messages"] = self.messages if self.raw is None else self.raw.messages
        if _wants_special_tokens(chat, fmt, self._settings):
            fields.setdefault("skip_special_tokens", False)
        return fields

    def _native_fields(self) -> dict[str, Any]:
        """The fields for a backend that takes tools: the client's, except `stop` and those that it may not know.

        Deprecated functions and custom tools become function tools.
        """
        chat = self._tools.shown
        fields: dict[str, Any] = dict(chat.fields)
        if chat.legacy or chat.custom or chat is not self._chat:
            functions = [_function_tool(tool) for tool in chat.tools.tools]
            fields["tools"] = [*functions, *(provider_tools(fields["tools"]) if chat.provider else ())]
        if chat.legacy or chat.custom:
            fields.pop("functions", None)
            fields.pop("function_call", None)
            fields["messages"] = chat.messages
            choice: Any = chat.choice.mode.value
            if chat.choice.name is not None:
                choice = {"type": "function", "function": {"name": chat.choice.name}}
            fields["tool_choice"] = choice
        if self.messages:
            fields["messages"] = self.messages
        if not chat.choice.parallel and chat.choice.mode is not ChoiceMode.NAMED:
            fields["parallel_tool_calls"] = False
        return fields


def wish(chat: ChatRequest, fmt: ToolFormat, *, bare: bool) -> str:
    """The text that asks the model for what `tool_choice` demands."""
    if not chat.offers_tools:
        return ""
    if bare:
        from ..formats.family import choice_text  # which imports the shapes of calls

        return choice_text(chat.tools.tools, chat.choice, noun="tool", answer=_BARE)
    return fmt.render_choice(chat.tools.tools, chat.choice)


def _function_tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _wants_special_tokens(chat: ChatRequest, fmt: ToolFormat, settings: Settings) -> bool:
    wanted = settings.special_tokens
    return chat.offers_tools and (wanted == "on" or (wanted == "auto" and bool(getattr(fmt, "special_tokens", False))))


def _put_in_front(messages: list[dict[str, Any]], front: str, role: str) -> None:
    """Put `front` into the first message of `role` (`system` and `developer` are one), else into a new message."""
    wanted = {"user"} if role == "user" else {"system", "developer"}
    for place, message in enumerate(messages):
        if message.get("role") in wanted:
            content = message.get("content")
            messages[place] = {**message, "content": history.appended(front, content if content is not None else "")}
            return
        if role == "user" and message.get("role") == "assistant":
            break  # templates without a system role want the user to begin
    messages.insert(0, {"role": role, "content": front})


def _put_before_last(messages: list[dict[str, Any]], text: str) -> None:
    """Put `text` before the content of the last message if that is the user's, else into a user message of its own.

    All messages before it keep their bytes.
    """
    if messages and messages[-1].get("role") == "user":
        last = messages[-1]
        messages[-1] = {**last, "content": history.appended(text, last.get("content") or "")}
    else:
        messages.append({"role": "user", "content": text})


def _tool_block(chat: ChatRequest, fmt: ToolFormat, settings: Settings) -> str:
    if not chat.offers_tools:
        return ""
    parallel = _block_parallel(chat, settings)
    # The bound method identifies the format object, as two formats of one name may render differently. The names are
    # in the key because a guard may offer fewer tools than the client sent.
    key = (fmt.render_tools, parallel, chat.tools_raw, tuple(chat.tools.by_name))
    block = _BLOCKS.get(key)
    if block is None:
        tools = chat.tools.tools
        # Without any tool, the block would not say how to call.
        front = [tool for tool in tools if not tool.loaded] or tools
        block = fmt.render_tools(front, parallel=parallel)
        _BLOCKS.put(key, block, size=len(chat.tools_raw) + len(block))
    return block


def _block_parallel(chat: ChatRequest, settings: Settings) -> bool:
    """Whether the block allows several calls. A named tool is requested at the end and must not change the block."""
    if chat.choice.mode is not ChoiceMode.NAMED:
        return chat.choice.parallel
    asked = chat.fields.get("parallel_tool_calls")
    return not chat.legacy and settings.parallel != "never" and (asked is None or bytes(asked).strip() != b"false")


_BLOCKS: LRUCache[Any, str] = LRUCache(max_entries=64, max_size=16 << 20)
"""Tool blocks by their inputs; sizes are in bytes. Agents send the same tools at every turn."""
