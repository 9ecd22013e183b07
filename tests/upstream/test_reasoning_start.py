"""An answer that begins in a thought: by the setting, by the model's name, and by what an earlier answer showed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.driven import Driven
from tests.helpers.stream_rules import check_stream, check_whole, same_answer
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.formats.prompt.thoughts import Returned
from toolcall_middleware.model import ToolCall
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import REMEMBERED_SECONDS, BackendMemory

from ..response.streams import DONE, chunk, completion, event, role
from ..response.test_reasoning import CITY, TOOLS, tag

THINKS = "Qwen/Qwen3-30B-A3B-Thinking-2507"
THOUGHT = f"I look.\n</think>\n\n{tag()}"


class Talk:
    """Asks one model again and again, whole or streamed; both show the same. memory: what is learned, by time."""

    def __init__(self, model: str = "m", **chosen: Any) -> None:
        self.now = 0.0
        self.memory = BackendMemory(lambda: self.now)
        self.model = model
        self.settings = Settings(**{"reasoning_field": "reasoning", **chosen})

    def _exchange(self, ask: dict[str, Any], memory: BackendMemory) -> Driven:
        made = Driven(self.settings, memory)
        body = {"model": self.model, "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, **ask}
        assert made.on_request(json.dumps(body).encode()) is not None
        return made

    def ask(self, message: dict[str, Any] | str, *, reason: str = "stop", client: bytes = b"", **ask: Any) -> Any:
        message = {"content": message} if isinstance(message, str) else message
        memory = self.memory.of(client)
        deltas = [chunk({name: char}) for name, text in message.items() for char in text]
        made = self._exchange({**ask, "stream": True}, _copy(memory))
        out = made.streams(*(event(one) for one in (role(), *deltas, chunk({}, reason))), DONE)
        streamed = check_stream(out)
        made = self._exchange(ask, memory)
        expected = check_whole(made.answers(completion(message, reason)).body)
        shown = streamed.only
        if shown.reasoning != expected.only.reasoning:
            # What was emitted as reasoning is emitted as text too.
            assert not expected.only.reasoning
            assert (shown.content or "").startswith(shown.reasoning)
            shown.reasoning = ""
        same_answer(streamed, expected)
        return expected.only


def _copy(memory: BackendMemory) -> BackendMemory:
    """A memory that knows the same, and what is learned by it stays in it."""
    made = BackendMemory(memory._clock)
    made._known._entries = memory._known._entries.copy()
    made._client = memory._client
    return made


# -- the setting ------------------------------------------------------------------------------------------------------


def test_open_reads_the_thought_from_the_first_character_on() -> None:
    answer = Talk(reasoning_start="open").ask(THOUGHT)
    assert (answer.reasoning, answer.content, answer.named_calls) == ("I look.\n", None, [("weather", CITY)])
    answer = Talk(reasoning_start="open").ask(f"Hm {tag('clock')}</think>Done.")
    assert (answer.reasoning, answer.content, answer.calls) == (f"Hm {tag('clock')}", "Done.", [])


def test_closed_knows_of_no_thought_before_its_beginning() -> None:
    for model in ("m", THINKS):
        talk = Talk(model, reasoning_start="closed")
        for _ in range(2):
            answer = talk.ask(THOUGHT)
            assert (answer.reasoning, answer.content, answer.named_calls) == (
                "",
                "I look.\n</think>",
                [("weather", CITY)],
            )


def test_without_a_field_for_it_the_thought_stays_in_content_as_written() -> None:
    answer = Talk(reasoning_start="open", reasoning_field=None).ask("I look.</think>Done.")
    assert (answer.content, answer.reasoning) == ("I look.</think>Done.", "")


def test_a_request_may_say_so_itself() -> None:
    answer = Talk().ask("I look.</think>Done.", toolcall={"reasoning_start": "open"})
    assert (answer.reasoning, answer.content) == ("I look.", "Done.")


def test_a_call_in_a_thought_that_the_prompt_opened_and_nothing_closes_is_one() -> None:
    answer = Talk(reasoning_start="open").ask(f"I look.\n{tag()}")
    assert answer.named_calls == [("weather", CITY)]
    assert answer.reasoning == "I look.\n"


@pytest.mark.parametrize("family", [one for one in markup.families() if one.markup.reasoning], ids=lambda one: one.name)
def test_open_reads_the_tags_of_the_family(family: Any) -> None:
    tags = registry.thoughts_of_format(family).tags
    assert tags.close in {"</think>", *(close for _, close in family.markup.reasoning)}
    call = family.render_calls([ToolCall("weather", CITY, "call_1")])
    answer = Talk(reasoning_start="open", format=family.name).ask(f"let me think{tags.close}{call}")
    assert (answer.reasoning, answer.content) == ("let me think", None)
    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [("weather", json.loads(CITY))]


def test_open_reads_mistrals_closing_tag() -> None:
    answer = Talk(reasoning_start="open", format="mistral_v11").ask(
        'let me think[/THINK][TOOL_CALLS]weather[ARGS]{"city": "Rome"}'
    )
    assert (answer.reasoning, answer.content) == ("let me think", None)
    assert answer.named_calls == [("weather", '{"city": "Rome"}')]


@pytest.mark.parametrize("model", [THINKS, "m"])
@pytest.mark.parametrize("parsed", ["ignore", "parse"])
@pytest.mark.parametrize("field", ["reasoning", None])
def test_a_guess_is_revised_whatever_becomes_of_thoughts(model: str, parsed: str, field: str | None) -> None:
    for text, said in (("Done.", "Done."), (tag(), ""), (f"So: {tag()}", "So: ")):
        answer = Talk(model, reasoning=parsed, reasoning_field=field).ask(text)
        assert (answer.content or "", answer.reasoning, len(answer.calls)) == (said, "", text.count("<tool_call>"))
    talk = Talk(THINKS, reasoning=parsed, reasoning_field=field)
    answer = talk.ask(f"Hm {tag('clock')} so</think>Done.")
    shown = "" if parsed == "parse" else tag("clock")
    thought = ("", f"Hm {shown} so</think>") if field is None else (f"Hm {shown} so", "")
    assert (answer.reasoning, answer.content) == (thought[0], f"{thought[1]}Done.")
    assert [call.name for call in answer.calls] == ["clock"] * (parsed == "parse")


def test_a_guess_is_revised_where_no_tool_may_be_called() -> None:
    assert Talk(THINKS).ask("Done.", tool_choice="none").content == "Done."


# -- by the model's name ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "opens"),
    [
        (THINKS, True),
        ("Qwen/QwQ-32B", True),
        ("qwen3:8b", False),
        ("Qwen/Qwen3.5-397B-A17B", True),
        ("Qwen/Qwen3.5-0.8B", False),
        ("zai-org/GLM-4.6", False),
        ("zai-org/GLM-4.7-FP8", True),
        ("zai-org/GLM-5", True),
        ("MiniMaxAI/MiniMax-M2.1", True),
        ("MiniMaxAI/MiniMax-M3", False),
        ("moonshotai/Kimi-K2-Thinking", False),
        ("moonshotai/Kimi-K2.5", True),
        ("moonshotai/Kimi-K3", True),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", True),
        ("deepseek-ai/DeepSeek-R1", True),
        ("unsloth/DeepSeek-R1-GGUF", True),
        ("deepseek-ai/DeepSeek-R1-0528", False),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", False),
        ("deepseek-r1:671b", False),
        ("deepseek-ai/DeepSeek-V3.2", False),
        ("openai/gpt-oss-20b", False),
        ("stepfun-ai/Step-3.5-Flash", True),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", True),
    ],
)
def test_auto_knows_families_whose_template_opens_it(model: str, opens: bool) -> None:
    assert (registry.opened_reasoning(model) is not None) is opens
    if opens and "K3" not in model:
        answer = Talk(model).ask("I look.</think>Done.")
        assert (answer.reasoning, answer.content) == ("I look.", "Done.")


def test_kimi_k3s_thought_is_a_channel() -> None:
    answer = Talk("Kimi-K3", reasoning_field=None).ask("I look.<|close|>think<|sep|><|open|>response<|sep|>Done.")
    assert (answer.reasoning, answer.content) == ("I look.", "Done.")


def test_each_entry_of_the_table_has_a_source_and_matches_its_own_family() -> None:
    told = 0
    for family in markup.families():
        found = registry.thoughts_of_format(family)
        assert bool(found.source) is (found.returned is not Returned.NONE), family.name
        others = [(glob, row[1]) for glob, row in found.other.items()]
        for glob, source in [*found.opened.items(), *found.unopened.items(), *others]:
            assert source
            sample = glob.replace("[-:]", "-").replace("[13-9]", "9b").replace("[5-9]", "5").replace("[3-9]", "3")
            sample = sample.replace("2[0-9]", "27b").replace("*", "4b-")
            assert registry.matches(f"org/{sample.upper()}-x", glob), glob
            told += 1
    assert told > 8


@pytest.mark.parametrize("switch", ["enable_thinking", "thinking"])
def test_a_request_that_turns_thinking_off_is_answered_without(switch: str) -> None:
    answer = Talk(THINKS).ask("Done.", chat_template_kwargs={switch: False})
    assert (answer.reasoning, answer.content) == ("", "Done.")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_backend_that_tells_the_thought_apart_itself_leaves_none_in_the_text(field: str) -> None:
    talk = Talk(THINKS, reasoning_field=None)
    for _ in range(2):
        answer = talk.ask({field: "I look.", "content": f"So: {tag()} there"})
        assert (answer.reasoning, answer.content) == ("I look.", "So:  there")
        assert answer.named_calls == [("weather", CITY)]


def test_an_answer_that_is_held_to_json_has_no_thought() -> None:
    answer = Talk(THINKS, constrain="response_format").ask(
        json.dumps({"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}), tool_choice="required"
    )
    assert [call.name for call in answer.calls] == ["weather"]
    assert answer.reasoning == ""


# -- by what an answer showed -----------------------------------------------------------------------------------------


def test_the_first_end_without_a_beginning_teaches_it() -> None:
    talk = Talk()
    first = talk.ask("I look.</think>Done.")
    assert (first.reasoning, first.content) == ("", "I look.</think>Done.")  # of a stream it had left
    second = talk.ask("I look.</think>Done.")
    assert (second.reasoning, second.content) == ("I look.", "Done.")
    # Another model, and another client, whose words may have caused it.
    assert talk.ask("I look.</think>Done.", model="other").reasoning == ""
    assert talk.ask("I look.</think>Done.", client=b"else").reasoning == ""


def test_what_was_learned_fades() -> None:
    talk = Talk()
    talk.ask("I look.</think>Done.")
    talk.now += REMEMBERED_SECONDS + 1
    assert talk.ask("I look.</think>Done.").reasoning == ""
    talk.now += REMEMBERED_SECONDS - 1
    assert talk.ask("I look.</think>Done.").reasoning == "I look."
    talk.now += REMEMBERED_SECONDS - 1  # each answer confirms it
    assert talk.ask("I look.</think>Done.").reasoning == "I look."


def test_an_answer_in_which_no_thought_ends_teaches_the_contrary() -> None:
    talk = Talk(THINKS)
    for _ in range(3):
        talk.now += REMEMBERED_SECONDS - 1
        assert talk.ask("Done.").content == "Done."
    assert talk.ask("I look.</think>Done.").content == "I look.</think>Done."
    assert talk.ask("I look.</think>Done.").reasoning == "I look."


def test_an_answer_that_was_cut_off_teaches_nothing() -> None:
    talk = Talk(THINKS)
    talk.ask("I look", reason="length")
    assert talk.ask("I look.</think>Done.").reasoning == "I look."


def test_a_call_in_a_thought_that_nothing_ends_teaches_the_contrary() -> None:
    """Where thinking is off on the server, an agent's turns are calls: each would leave with its markup."""
    talk = Talk(THINKS)
    for _ in range(4):
        answer = talk.ask(f"I look.\n{tag()}")
        assert (answer.reasoning, answer.content, answer.named_calls) == ("", "I look.\n", [("weather", CITY)])
    assert talk.ask(f"I look.</think>{tag()}").content == "I look.</think>"
    assert talk.ask(f"I look.</think>{tag()}").reasoning == "I look."


def test_a_model_that_opens_its_thoughts_itself_teaches_that() -> None:
    talk = Talk(THINKS)
    for _ in range(2):
        answer = talk.ask("<think>I look.</think>Done.")
        assert (answer.reasoning, answer.content) == ("I look.", "Done.")
    assert talk.ask("Done.").content == "Done."


@pytest.mark.parametrize(
    "text",
    ["It ends with `</think>`, see.", "<think>a</think>b</think>c", f"{tag()}</think>", "```\n</think>\n```"],
)
def test_an_end_that_is_none_of_a_thought_in_the_prompt_teaches_nothing(text: str) -> None:
    talk = Talk()
    talk.ask(text)
    assert talk.ask("Done.").content == "Done."


def test_a_set_start_learns_nothing() -> None:
    talk = Talk(reasoning_start="closed")
    talk.ask("I look.</think>Done.")
    talk.settings = Settings(reasoning_field="reasoning")
    assert talk.ask("Done.").content == "Done."
