"""`send=completions`: the conversation as a checkpoint's own chat template renders it, for the backend's
`/v1/completions`.

The template gets the tools, calls and results as OpenAI's API has them. The text of results is neutralised as in every
other prompt. The text for `tool_choice` is at the end, in the words of the format.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..apis.completions import completion_body
from ..errors import FormatError, ToolCallError, refusal, shown
from ..formats.base import ToolFormat
from ..formats.family import Family
from ..formats.prompt import escaping
from ..formats.registry import thoughts_of
from ..formats.template import sources
from ..formats.template.prompts import TemplatePrompts, Written
from ..formats.template.render import TemplateRefusalError
from ..formats.template.turns import tokens
from ..model import ToolCall, ToolResult
from ..parsing.text.reasoning import OpenedReasoning
from ..request.messages import calls_of
from ..request.parse import ChatRequest
from ..settings import Settings
from ..wire import openai
from .history import for_backend, joined, plain_content, reasoning_of
from .negotiation import asks_llama_cpp_for_text

_log = logging.getLogger("toolcall_middleware")
_NOT_WITH_A_PROMPT = {
    "chat_template": "the prompt is written by the template of the setting `template`",
    "continue_final_message": "the prompt ends where a new answer begins",
}
_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")

Message = dict[str, Any]


class RawPrompt:
    """The conversation of one request for the template, over all attempts. A host runs `write` in a thread before it
    asks the backend with `body`.

    messages, plain: those of the current attempt, and those for a template that does not understand tools. limit: bytes
    that a whole answer may have. written: None before `write`. on_body: called with the body for the backend, which no
    action of the exchange holds.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, fmt: ToolFormat, prompts: TemplatePrompts) -> None:
        for name, why in _NOT_WITH_A_PROMPT.items():
            if openai.read_value(chat.fields.get(name)):
                raise refusal(name, f"'{name}' cannot be used here: {why}.")
        self._prompts = prompts
        self._format = fmt
        self._model = chat.model
        self.limit = settings.max_response_bytes
        self._llama_cpp = asks_llama_cpp_for_text(settings)
        self._more = _for_template(chat)
        # All tools, even if one is named: the prompt's beginning stays the same from turn to turn.
        offered = chat.tools.tools if chat.offers_tools else ()
        self.tools = [{"type": "function", "function": _harmless(escaping.describe(tool))} for tool in offered]
        self.messages = _messages(chat, settings, fmt)
        self.plain: list[Message] = []
        self.written: Written | None = None
        self.on_body: Callable[[bytes], object] | None = None

    def write(self) -> None:
        """Write the prompt. Takes milliseconds. Raises ToolCallError."""
        try:
            self.written = self._prompts.write(self.messages, self.tools, self.plain, self._more)
        except TemplateRefusalError as said:
            raise refusal("messages", f"The model's chat template refuses these messages: {said}") from None
        except FormatError as error:
            raise ToolCallError("upstream_error", f"The prompt cannot be written: {error}") from None

    @property
    def text(self) -> str:
        """The prompt; empty before `write`."""
        return "" if self.written is None else self.written.text

    def body(self, body: bytes) -> bytes:
        """The body of the text completion, made of the chat completion's."""
        stop = () if self.written is None else self.written.ends
        preserved = preserved_tokens(self._format, self._model)
        asked = completion_body(body, self.text, stop=stop, preserved=preserved, llama_cpp=self._llama_cpp)
        if self.on_body is not None:
            self.on_body(asked)
        return asked

    @property
    def opened(self) -> OpenedReasoning | None:
        """The reasoning that the prompt's end opens, if any."""
        if self.written is None or self.written.opened is None:
            return None
        opening, closing = self.written.opened
        known = thoughts_of(self._format, self._model).tags
        return known if known.opening.strip() == opening.strip() else OpenedReasoning(opening, closing)


def raw_prompt(chat: ChatRequest, settings: Settings, fmt: ToolFormat) -> RawPrompt | None:
    """The prompt; None if the setting does not ask for it, no tools are involved, or the model has no template here.

    Raises ToolCallError.
    """
    if settings.send != "completions" or settings.template is None:
        return None
    if not chat.tools.tools and not any(calls_of(each) or each["role"] == "tool" for each in chat.messages):
        return None
    prompts = sources.prompts_for(settings.template, chat.model)
    if prompts is None:
        _log.info("There is no template of %s at hand: its prompt is a chat's.", shown(chat.model))
        return None
    return RawPrompt(chat, settings, fmt, prompts)


def _for_template(chat: ChatRequest) -> dict[str, Any]:
    """The client's other variables for the template."""
    given = openai.read_value(chat.fields.get("chat_template_kwargs"))
    more = dict(given) if isinstance(given, dict) else {}
    more.pop("add_generation_prompt", None)
    effort = openai.read_value(chat.fields.get("reasoning_effort"))
    return {"reasoning_effort": effort, **more} if isinstance(effort, str) else more


def _messages(chat: ChatRequest, settings: Settings, fmt: ToolFormat) -> list[Message]:
    messages = for_backend(chat.messages, settings.max_result_bytes, own_ids=False) or chat.messages
    offered = chat.listed.by_name
    is_call = escaping.RepeatedResults(fmt, offered).is_call
    made = [_message(message, place, offered, is_call) for place, message in enumerate(messages)]
    system = [message["content"] for message in made if message["role"] == "system"]
    if settings.messages == "keep" or not system:
        return made
    rest = [message for message in made if message["role"] != "system"]
    front = {"role": settings.system_role, "content": joined(system)}
    if rest and rest[0]["role"] == front["role"]:
        front, rest = {**front, "content": joined([front["content"], rest[0]["content"]])}, rest[1:]
    return [front, *rest]


def _message(message: Message, place: int, offered: Collection[str], is_call: Callable[[str, int], bool]) -> Message:
    made = {name: message[name] for name in _FIELDS if name in message}
    content = plain_content(message)
    if not isinstance(content, str):
        text = "A prompt that is sent as text holds no images or other media; leave them out, or set send=chat."
        raise refusal(f"messages[{place}].content", text)
    made["content"] = content
    match message["role"]:
        case "developer":
            made["role"] = "system"
        case "tool":
            content = escaping.neutralise_names(content, offered, is_call)
            made["content"] = escaping.with_note(escaping.neutralise(content), [ToolResult("", content)])
        case "assistant" if thought := reasoning_of(message):
            # Templates read either of the two names.
            made["reasoning_content"] = made["reasoning"] = thought
    return made


def _harmless(value: Any) -> Any:
    """The JSON value with markup in its strings neutralised. Names of fields are unchanged."""
    match value:
        case str():
            return escaping.neutralise(value)
        case list():
            return [_harmless(item) for item in value]
        case Mapping():
            return {key: _harmless(item) for key, item in value.items()}
    return value


_CALLS = [ToolCall("f", '{"a": "b"}', "call_000000001"), ToolCall("f", '{"a": 1}', "call_000000002")]
_MOST = 64
"""The maximum of preserved tokens: each is looked up in the vocabulary."""


def preserved_tokens(fmt: ToolFormat, model: str) -> list[str]:
    """The markers of a format's calls, turns and reasoning, which may be special tokens and must be emitted as text.

    llama.cpp's text completions drop special tokens that `preserved_tokens` does not name, and ignore names of several
    tokens (its server's `params_from_json_cmpl`). vLLM and SGLang take `skip_special_tokens: false` instead.
    """
    tags = thoughts_of(fmt, model).tags
    markers = [*tokens(fmt.render_calls(_CALLS)), tags.opening, tags.close]
    if isinstance(fmt, Family):
        markup = fmt.markup
        markers += [tag for pair in markup.reasoning for tag in pair]
        markers += [*markup.noise, *markup.stops]  # the end of a turn ends the answer and is not text
        markers += [opener.marker for opener in fmt.auto_openers]
    # A marker may be a token followed by a word (`<|channel>thought`).
    found = dict.fromkeys(token for marker in markers for token in tokens(marker) or [marker.strip()])
    return [token for token in found if token][:_MOST]
