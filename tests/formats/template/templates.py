"""Small chat templates of our own, each with a form of calls that some models have."""

from __future__ import annotations

_TURNS = """\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools

<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>

%HOW%<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>tool
<output>{{ message.content }}</output><|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{% if message.reasoning_content %}<ponder>
{{ message.reasoning_content }}
</ponder>
{% endif %}{{ message.content or '' }}{% if message.tool_calls %}%CALLS%{% endif %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def with_calls(calls: str, how: str = "Call a tool like this.") -> str:
    """A template of ChatML's shape. calls: Jinja that writes `message.tool_calls`."""
    return _TURNS.replace("%CALLS%", calls).replace("%HOW%", how)


EACH = "{% for call in message.tool_calls %}%ONE%{% endfor %}"


def each(one: str) -> str:
    """Calls one by one; `call` is the function."""
    return with_calls(EACH.replace("%ONE%", one.replace("call.", "call.function.")))


# Kept away from every built-in family's markers, so that nothing but the derivation can read them.
JSON = each('<acme_call>{"tool": "{{ call.name }}", "input": {{ call.arguments | tojson }}}</acme_call>')
JSON_LIST = with_calls(
    '<|acme:calls|>[{% for call in message.tool_calls %}{"name": "{{ call.function.name }}", "arguments": '
    '{{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}{{ ", " if not loop.last }}{% endfor %}]<|acme:end|>'
)
KEYED = each('<|acme:calls|>{"{{ call.name }}": {{ call.arguments | tojson }}}<|acme:end|>')
NAMED = each("<|acme:call|>{{ call.name }}<|acme:args|>{{ call.arguments | tojson }}<|acme:end|>")
SECTION = with_calls(
    "<|acme:section|>{% for call in message.tool_calls %}<|acme:begin|>tools.{{ call.function.name }}#"
    "{{ loop.index0 }}<|acme:args|>{{ call.function.arguments | tojson }}<|acme:end|>{% endfor %}<|acme:over|>"
).replace("#", ":")
_VALUE = "{{ value if value is string else value | tojson }}"
TAGS = each(
    '<acme_call name="{{ call.name }}">\n{% for key, value in call.arguments | items %}'
    f'<acme_arg key="{{{{ key }}}}">{_VALUE}</acme_arg>\n{{% endfor %}}</acme_call>'
)
LINES = each(
    "<acme_call>\n<do={{ call.name }}>\n{% for key, value in call.arguments | items %}"
    f"<with={{{{ key }}}}>\n{_VALUE}\n</with>\n{{% endfor %}}</do>\n</acme_call>"
)
PAIRS = each(
    "<acme_call>{{ call.name }}{% for key, value in call.arguments | items %}"
    f"<acme_key>{{{{ key }}}}</acme_key><acme_value>{_VALUE}</acme_value>{{% endfor %}}</acme_call>"
)
TYPED = each(
    '<acme_call name="{{ call.name }}">\n{% for key, value in call.arguments | items %}'
    '<acme_arg name="{{ key }}" string="{{ "true" if value is string else "false" }}">'
    f"{_VALUE}</acme_arg>\n{{% endfor %}}</acme_call>"
)
_LITERAL = (
    "{% macro spelled(v) %}{% if v is string %}{{ v | tojson }}{% elif v is none %}None{% elif v is boolean %}"
    "{{ 'True' if v else 'False' }}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}"
)
PYTHON = _LITERAL + with_calls(
    "<|acme:calls|>[{% for call in message.tool_calls %}{{ call.function.name }}("
    "{% for key, value in call.function.arguments | items %}{{ key }}={{ spelled(value) }}{{ ', ' if not loop.last }}"
    "{% endfor %}){{ ', ' if not loop.last }}{% endfor %}]<|acme:end|>"
)
HERMES = each('\n<tool_call>\n{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}\n</tool_call>')
ONE_CALL = with_calls(
    "{% if message.tool_calls | length > 1 %}{{ raise_exception('one at a time') }}{% endif %}"
    '<acme_call>{"name": "{{ message.tool_calls[0].function.name }}", "arguments": '
    "{{ message.tool_calls[0].function.arguments | tojson }}}</acme_call>"
)
NO_CALLS = with_calls("")
# The name and the arguments stand far apart in words of their own: no reader knows such.
PROSE = each("I call {{ call.name }} with {{ call.arguments | length }} things.")

READ = {
    "json": JSON,
    "json_list": JSON_LIST,
    "keyed": KEYED,
    "named": NAMED,
    "section": SECTION,
    "tags": TAGS,
    "lines": LINES,
    "pairs": PAIRS,
    "typed": TYPED,
    "python": PYTHON,
    "one_call": ONE_CALL,
}
"""Those that are in no family's form, by the form."""
