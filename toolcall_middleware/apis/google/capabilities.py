"""What of OpenAI's chat completions Google's API can do."""

from __future__ import annotations

from ..capabilities import Support, table

CAPABILITIES = table(
    tools=(Support.YES, "a schema that cannot be expressed is refused by name"),
    tool_choice_required=Support.YES,
    tool_choice_named=Support.YES,
    tool_choice_allowed_tools=(Support.YES, "with mode auto the others are not sent"),
    parallel_tool_calls_false=(Support.MADE_UP, "the generation is ended after one call"),
    tools_strict=Support.LEFT_OUT,
    arguments_as_a_stream=(Support.MODEL, "the Gemini API sends a call's arguments whole"),
    tool_is_error=(Support.YES, "as a field of the response"),
    tool_image_url=Support.YES,
    user_image_url=Support.YES,
    user_file=(Support.YES, "as a data URL; a file_id is refused"),
    user_input_audio=Support.YES,
    response_format=Support.YES,
    reasoning_effort=(Support.MODEL, "a budget or a level, as the model wants it; else left out"),
    temperature_top_p=Support.YES,
    stop=(Support.YES, "at most 5 strings"),
    max_tokens=Support.YES,
    n=Support.YES,
    logprobs=Support.REFUSED,
    seed=Support.YES,
    frequency_penalty_presence_penalty=Support.YES,
    logit_bias=Support.REFUSED,
)
