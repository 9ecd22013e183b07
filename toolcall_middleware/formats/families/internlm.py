"""Shanghai AI Lab's InternLM: JSON objects between `<|action_start|><|plugin|>` and `<|action_end|>`."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..syntax.json import PARAMETERS, Json

# The calls are as its template writes them; the tools stand there in a turn of their own.
# https://github.com/InternLM/InternLM/blob/main/chat/chat_format.md
INTERNLM = Family(
    name="internlm",
    about="JSON objects between `<|action_start|><|plugin|>` and `<|action_end|>`: InternLM 2 and 3, Intern-S1",
    models={
        "internlm2": "[vllm] internlm: 2 and 2.5",
        "internlm3": "[card] InternLM 3",
        "intern-s1": "[sglang] interns1",
    },
    calls=Json(call=f"<|action_start|><|plugin|>\n{PARAMETERS}<|action_end|>", between=""),
    fallback=reading.BARE_JSON,
    prompt="""\
You can call the following functions:
[{tools}]

To call a function, answer with its name and parameters in this form:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself. When \
no function fits, answer in plain text.""",
    between=", ",
    special_tokens=True,
)

FAMILIES = (INTERNLM,)
