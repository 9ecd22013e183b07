"""How the families that write calls as tags lay them out, as data for the reader in parsing/calls/xml_calls.py.

Sources: the families' chat templates, and what their models are reported to write instead.
"""

from __future__ import annotations

import re

from ..parsing.calls.xml_syntax import TaggedSyntax
from . import reading

_TAILS = (*reading.ENDS, *reading.STOPS)
# `=f`, ` f`; and as an attribute would be: `="f"`, ` name="f"`.
_NAMED = r"(?:=| name[ ]?=|[ ])[ ]?(?P<quote>[\"']?)(?P<{}>[^>\n]{{1,256}}?)(?P=quote)[ ]?"
_QUOTED = r"[ ]?=[ ]?(?P<quote_{0}>[\"'])?(?P<{0}>[^\"'>\n]{{1,256}}?)(?(quote_{0})[\"'])[ ]?"


def _attribute(tag: str, group: str, more: str = "") -> re.Pattern[str]:
    """A pattern of `<tag name="…">`."""
    return re.compile(f"<{tag}[ Ġ]?name{_QUOTED.format(group)}{more}>")


def _begun(*heads: str) -> re.Pattern[str]:
    """A tag with one of these heads that has not ended."""
    return re.compile(f"(?:{'|'.join(map(re.escape, heads))})[^>\\n]{{0,300}}")


def function_tags(marker: str) -> TaggedSyntax:
    """`<function=f><parameter=x>…</parameter></function>` within `<marker>`."""
    return TaggedSyntax(
        call=re.compile(rf"<function{_NAMED.format('name')}>"),
        call_heads=("<function=", "<function "),
        call_part=_begun("<function=", "<function "),
        parameter=re.compile(rf"<parameter{_NAMED.format('key')}>"),
        parameter_heads=("<parameter=", "<parameter "),
        parameter_part=_begun("<parameter=", "<parameter "),
        value_close="</parameter>",
        call_close="</function>",
        close=f"</{marker}>",
        reopen=(f"<{marker}>",),
        tails=_TAILS,
    )


def invoke_tags(close: str, prefix: str = "", *, noise: tuple[str, ...] = (), newlines: bool = True) -> TaggedSyntax:
    """`<invoke name="f"><parameter name="x">…</parameter></invoke>`, each tag's name with `prefix` before it.

    A parameter's own prefix may be missing, and the space before `name`: it gets lost where special tokens are put
    together.
    """
    mark = re.escape(prefix)
    calls = (f"<{prefix}invoke name", f"<{prefix}invokename")
    heads = tuple(dict.fromkeys(f"<{each}parameter{space}name" for each in (prefix, "") for space in (" ", "")))
    kind = r"(?:[ ]+string[ ]?=[ ]?[\"'](?P<kind>\w{1,8})[\"'][ ]?)?"
    return TaggedSyntax(
        call=_attribute(f"{mark}invoke", "name", "(?P<empty>/)?"),
        call_heads=calls,
        call_part=_begun(*calls),
        parameter=_attribute(f"(?:{mark})?parameter", "key", kind),
        parameter_heads=heads,
        parameter_part=_begun(*heads),
        value_close=f"</{prefix}parameter>",
        call_close=f"</{prefix}invoke>",
        close=close,
        noise=noise,
        tails=_TAILS,
        newlines=newlines,
    )


def key_value_tags(prefix: str = "") -> TaggedSyntax:
    """`f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>`, each tag's name with `prefix` before it."""
    key, end = f"<{prefix}arg_key>", f"</{prefix}tool_call>"
    ws = r"[ \t\r\n]{0,64}"
    return TaggedSyntax(
        call=re.compile(
            rf"(?P<name>[^\s<>{{}}\[\]\"'`]{{1,256}}){ws}(?:<tool_sep>{ws})?(?=<{prefix}arg_key>|{end}|\{{)"
        ),
        call_heads=(),
        call_part=re.compile(rf"[^\s<>{{}}\[\]\"'`]{{1,256}}{ws}(?:<tool_sep>{ws})?(?:<[/a-z_]{{0,20}})?"),
        parameter=re.compile(rf"(?:{key}{ws}){{1,4}}(?P<key>[^<]{{1,256}})</{prefix}arg_key>"),
        parameter_heads=(key,),
        parameter_part=re.compile(rf"(?:{key}{ws}){{1,4}}[^<]{{0,256}}(?:</?[a-z_]{{0,24}})?"),
        key_close=f"</{prefix}arg_key>",
        value_open=f"<{prefix}arg_value>",
        value_close=f"</{prefix}arg_value>",
        call_close=end,
        close=end,
        reopen=(f"<{prefix}tool_call>",),
        tails=_TAILS,
        bare_name=True,
    )


QWEN3_CODER = function_tags("tool_call")
SEED_OSS = function_tags("seed:tool_call")
MINICPM5 = TaggedSyntax(
    call=_attribute("function", "name"),
    # `Ġ`: a space as the tokenizer writes it.
    call_heads=("<function name", "<functionname", "<functionĠname"),
    call_part=_begun("<function name", "<functionname", "<functionĠname"),
    parameter=_attribute("param", "key"),
    parameter_heads=("<param name", "<paramname", "<paramĠname"),
    parameter_part=_begun("<param name", "<paramname", "<paramĠname"),
    value_close="</param>",
    call_close="</function>",
    noise=("<arguments>", "</arguments>"),
    tails=_TAILS,
    xml=True,
)
UNTAGGED = invoke_tags("</function_calls>")
MINIMAX = invoke_tags("</minimax:tool_call>")
STEP3 = invoke_tags(
    "<｜tool_calls_end｜>",
    "steptml:",
    noise=("<｜tool_call_begin｜>", "<｜tool_call_end｜>", "function<｜tool_sep｜>", "<｜tool_sep｜>"),
)
# Version 4 wraps in `tool_calls`, 4.1 in ` calls` with a space in every tag. Values stand as they are.
DSML = {
    f"{prefix}{wrapper}": invoke_tags(f"</{prefix}{wrapper}>", prefix, newlines=False)
    for prefix, wrapper in (("｜DSML｜", "function_calls"), ("｜DSML｜", "tool_calls"), ("｜DSML｜ ", "calls"))
}
GCML = invoke_tags("</｜GCML｜tool_calls>", "｜GCML｜", newlines=False)
DOTS = invoke_tags("</dots_function_call>")
ATEM = invoke_tags("</atem:function_calls>", "atem:", noise=("</atem:invoke>",))
SOLAR_OPEN2 = TaggedSyntax(
    call=re.compile(
        r"<\|tool_call:start\|>[ \t]{0,64}(?P<name>[^\n<]{1,256})(?:\n|(?=<\|tool_(?:arg:start|call:end)\|>))"
    ),
    call_heads=("<|tool_call:start|>",),
    call_part=re.compile(r"<\|tool_call:start\|>[^\n<]{0,320}(?:<[|a-z_:]{0,16})?"),
    parameter=re.compile(r"<\|tool_arg:start\|>(?P<key>[^<\n]{1,256})<\|tool_arg:value\|>"),
    parameter_heads=("<|tool_arg:start|>",),
    parameter_part=re.compile(r"<\|tool_arg:start\|>[^<\n]{0,256}(?:<[|a-z_:]{0,16})?"),
    value_close="<|tool_arg:end|>",
    call_close="<|tool_call:end|>",
    tails=_TAILS,
    newlines=False,
)
_IFM_KIND = r"(?:<ifm\|arg_type>(?P<kind>\w{1,12})</ifm\|arg_type>[ \t\r\n]{0,64})?"
K2_HORIZON = TaggedSyntax(
    call=re.compile(
        r"<ifm\|tool_call>[ \t\r\n]{0,64}(?P<name>[^\s<>{}\[\]\"'`]{1,256})[ \t\r\n]{0,64}"
        r"(?=<ifm\|arg_key>|</ifm\|tool_call>|\{)"
    ),
    call_heads=("<ifm|tool_call>",),
    call_part=re.compile(
        r"<ifm\|tool_call>[ \t\r\n]{0,64}(?:[^\s<>{}\[\]\"'`]{1,256}[ \t\r\n]{0,64}(?:<[/a-z_|]{0,20})?)?"
    ),
    parameter=re.compile(
        rf"<ifm\|arg_key>(?P<key>[^<]{{1,256}})</ifm\|arg_key>[ \t\r\n]{{0,64}}{_IFM_KIND}<ifm\|arg_value>"
    ),
    parameter_heads=("<ifm|arg_key>",),
    parameter_part=re.compile(
        r"<ifm\|arg_key>[^<]{0,256}(?:</?[a-z_|]{0,16}|</ifm\|arg_key>[ \t\r\n]{0,64}"
        r"(?:<ifm\|arg_type>\w{0,12}(?:</ifm\|arg_type>[ \t\r\n]{0,64})?)?(?:</?[a-z_|]{0,16})?)?"
    ),
    value_close="</ifm|arg_value>",
    call_close="</ifm|tool_call>",
    close="</ifm|tool_calls>",
    tails=_TAILS,
)
MIROTHINKER = TaggedSyntax(
    call=re.compile(
        r"(?:<server_name>[^<]{0,256}</server_name>[ \t\r\n]{0,64})?"
        r"<tool_name>[ \t\r\n]{0,64}(?P<name>[^<\s](?:[^<\n]{0,254}[^<\s])?)[ \t\r\n]{0,64}</tool_name>"
        r"[ \t\r\n]{0,64}<arguments>"
    ),
    call_heads=("<server_name>", "<tool_name>"),
    # Each part takes all that it can: nothing is tried twice.
    call_part=re.compile(r"<(?:server|tool)_name>[^<]{0,384}+(?:</?+[a-z_]{0,16}+>?+[^<]{0,384}+){0,4}+"),
    parameter=re.compile(r"(?!)"),
    parameter_heads=(),
    value_close="</arguments>",
    call_close="</arguments>",
    close="</use_mcp_tool>",
    tails=_TAILS,
)
KIMI_K3 = TaggedSyntax(
    call=re.compile(r'<\|open\|>call [^<>\n]{0,100}?tool="(?P<name>[^"\n]{1,256})"[^<>\n]{0,100}<\|sep\|>'),
    call_heads=("<|open|>call ",),
    call_part=re.compile(r"<\|open\|>call [^\n]{0,500}"),
    parameter=re.compile(
        r'<\|open\|>argument (?:type="\w{1,12}" )?key="(?P<key>[^"\n]{1,256})"(?: type="(?P<kind>\w{1,12})")?'
        r"[^<>\n]{0,64}<\|sep\|>"
    ),
    parameter_heads=("<|open|>argument ",),
    parameter_part=re.compile(r"<\|open\|>argument [^\n]{0,500}"),
    value_close="<|close|>argument<|sep|>",
    call_close="<|close|>call<|sep|>",
    close="<|close|>tools<|sep|>",
    # Arguments that were JSON when they were written into the history.
    noise=('<|open|>json type="object"<|sep|>', "<|open|>json<|sep|>", "<|close|>json<|sep|>"),
    tails=_TAILS,
    newlines=False,
    entities=True,
)
GLM = key_value_tags()


def _hy_v3(kind: str) -> TaggedSyntax:
    """As GLM's, a separator behind the name, a wrapper around all calls; each tag's name with `kind` behind it."""
    ws, name = r"[ \t\r\n]{0,64}", r"[^\s<>{}\[\]\"'`]{1,256}"
    key, end = f"<arg_key{kind}>", f"</tool_call{kind}>"
    return TaggedSyntax(
        call=re.compile(rf"<tool_call{kind}>{ws}(?P<name>{name}){ws}(?:<tool_sep{kind}>|(?={key}|{end}))"),
        call_heads=(f"<tool_call{kind}>",),
        call_part=re.compile(rf"<tool_call{kind}>{ws}(?:{name}{ws}(?:<[/a-z_:]{{0,32}})?)?"),
        parameter=re.compile(rf"(?:{key}{ws}){{1,4}}(?P<key>[^<]{{1,256}})</arg_key{kind}>"),
        parameter_heads=(key,),
        parameter_part=re.compile(rf"(?:{key}{ws}){{1,4}}[^<]{{0,256}}(?:</?[a-z_:]{{0,32}})?"),
        key_close=f"</arg_key{kind}>",
        value_open=f"<arg_value{kind}>",
        value_close=f"</arg_value{kind}>",
        call_close=end,
        close=f"</tool_calls{kind}>",
        tails=_TAILS,
    )


HY_V3 = _hy_v3("")
HY_V3_OPEN = _hy_v3(":opensource")  # the tokens of the published models
LONGCAT = key_value_tags("longcat_")
