"""What of OpenAI's chat completions Anthropic's API can do."""

from __future__ import annotations

from ...capabilities import Support, table

CAPABILITIES = table(
    tools=Support.YES,
    tool_choice_required=(Support.MODEL, "else asked for, checked and asked again"),
    tool_choice_named=(Support.MODEL, "else asked for, checked and asked again"),
    tool_choice_allowed_tools=(Support.MADE_UP, "the others are not sent"),
    parallel_tool_calls_false=Support.YES,
    tools_strict=(Support.MODEL, "where the schema can be constrained as it is; else left out"),
    arguments_as_a_stream=Support.YES,
    tool_is_error=Support.YES,
    tool_image_url=Support.YES,
    user_image_url=(Support.YES, "http addresses and data URLs of JPEG, PNG, GIF, WebP"),
    user_file=(Support.YES, "PDF as a data URL; a file_id is refused"),
    user_input_audio=Support.REFUSED,
    response_format=(Support.MODEL, "json_schema that can be constrained as it is; else asked for in words"),
    reasoning_effort=(Support.MODEL, "a budget or an effort, as the model wants it; not when a call is forced"),
    temperature_top_p=(Support.MODEL, "at most 1; newer models take none, and it is left out"),
    stop=(Support.YES, "strings of white space alone are left out"),
    max_tokens=(Support.YES, "default_max_tokens where the client gives none"),
    n=(Support.REFUSED, "but for n=1"),
    logprobs=Support.REFUSED,
    seed=Support.LEFT_OUT,
    frequency_penalty_presence_penalty=Support.LEFT_OUT,
    logit_bias=Support.LEFT_OUT,
)
