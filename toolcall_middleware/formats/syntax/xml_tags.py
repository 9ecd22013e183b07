"""How families that write calls as tags lay them out, as data for the reader of calls in tags.

Sources: the families' chat templates, and what their models are reported to write instead.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...parsing.calls.xml.syntax import TaggedSyntax
from ...parsing.text.grammar import beginnings
from .. import markup
from .xml import Tags

XmlSyntax = Callable[[], TaggedSyntax]
"""Gives what the reader of calls in tags needs, always the same object."""

# `=f`, ` f`; and as an attribute would be: `="f"`, ` name="f"`, of which only the last quote may be left.
_NAMED = r"(?:=| name[ ]?=|[ ])[ ]?(?P<quote>[\"']?)(?P<{}>[^>\n]{{1,256}}?)(?P=quote)[\"']?[ ]?"
_STRING = r"(?:[ ]+string[ ]?=[ ]?[\"'](?P<kind>\w{1,8})[\"'][ ]?)?"  # says whether the value is a string
_QUOTED = r"[ ]?=[ ]?(?P<quote_{0}>[\"'])?(?P<{0}>[^\"'>\n]{{1,256}}?)"
_UNQUOTED = r"(?(quote_{0})[\"'])[ ]?"

ATTRIBUTE = r"[^\"'>\n]{1,256}"
"""Pattern of a key that can stand in an attribute."""


def xml_syntax(**parts: Any) -> XmlSyntax:
    """`parts` are TaggedSyntax's. It is made when it is first asked for: its tails are every family's turn markers."""

    @functools.lru_cache(maxsize=2)
    def made(tails: tuple[str, ...]) -> TaggedSyntax:
        return TaggedSyntax(tails=tails, **parts)

    return lambda: made(markup.turn_markers())


def heads(*tags: str) -> tuple[str, ...]:
    """How a tag of `attribute` begins. The space gets lost where special tokens are put together; `Ġ` is how some
    tokenizers write it.
    """
    return tuple(dict.fromkeys(f"<{tag}{space}name" for tag in tags for space in (" ", "", "Ġ")))


def attribute(tag: str, group: str, more: str = "", *, stray: str = "") -> re.Pattern[str]:
    """A pattern of `<tag name="…">`; see `heads`.

    stray: a special token that models write by mistake behind the name, before `">` or in place of it.
    """
    end = f"{_UNQUOTED.format(group)}{more}>"
    if stray:
        strays = f"(?:{re.escape(stray)}){{1,4}}"
        end = rf"(?:(?:{_UNQUOTED.format(group)}|{strays}[\"']?[ ]?){more}>|{strays}(?=\n{{0,8}}<[/a-z]))"
    return re.compile(f"<{tag}[ Ġ]?name{_QUOTED.format(group)}{end}")


def begun(*heads: str, stray: str = "") -> re.Pattern[str]:
    """A tag with one of these heads that has not ended. stray: see `attribute`."""
    char = rf"(?:{re.escape(stray)}\n{{0,8}}|[^>\n])" if stray else r"[^>\n]"
    return re.compile(f"(?:{'|'.join(map(re.escape, heads))}){char}{{0,300}}")


@dataclass(frozen=True, slots=True)
class XmlCalls:
    """Calls in tags: how they are read, and how they are written."""

    read: XmlSyntax
    written: Tags


def function_calls(wrapper: str, *, lines: bool = False) -> XmlCalls:
    """`<function=f><parameter=x>…</parameter></function>` within `<wrapper>`.

    lines: a value stands on lines of its own.
    """
    ws = r"[ \t\r\n]{0,64}"
    read = xml_syntax(
        # The name may stand in the tag of a parameter, which the call's parameters follow.
        call=re.compile(
            rf"<(?:function|(?P<odd>parameter)){_NAMED.format('name')}"
            # Llama 3 forgets the bracket before arguments in JSON, or writes something else.
            rf"(?(odd)>(?={ws}(?:<parameter[= ]|</function>))|(?:>|[=(,]?[ ]?(?=\[?\{{)))"
        ),
        call_heads=("<function=", "<function "),
        call_part=re.compile(
            rf"{beginnings('<parameter')}|<(?:function|parameter)[= ][^>\n]{{0,300}}(?:>{ws}(?:<[/a-z]{{0,10}})?)?"
        ),
        parameter=re.compile(rf"<parameter{_NAMED.format('key')}{_STRING}>"),
        parameter_heads=("<parameter=", "<parameter "),
        parameter_part=begun("<parameter=", "<parameter "),
        value_close="</parameter>",
        call_close="</function>",
        close=f"</{wrapper}>",
        noise=("</function_invocation>",),  # Qwen 3.6, in addition to the others
        reopen=(f"<{wrapper}>",),
    )
    written = Tags(
        call=f"<{wrapper}>\n<function={{name}}>\n",
        call_end="</function>",
        tail=f"\n</{wrapper}>",
        parameter="<parameter={key}>",
        parameter_end="</parameter>",
        key=r"(?![\"'])[^>\n]{1,256}(?<![\"'])",  # quotes around it are markup
        lines=lines,
    )
    return XmlCalls(read, written)


def invoke_tags(
    close: str, prefix: str = "", *, noise: tuple[str, ...] = (), stray: str = "", newlines: bool = True
) -> XmlSyntax:
    """`<invoke name="f"><parameter name="x">…</parameter></invoke>`, each tag's name with `prefix` before it.

    A parameter's own prefix may be missing. stray: see `attribute`, of a call's name.
    """
    mark = re.escape(prefix)
    calls, parameters = heads(f"{prefix}invoke"), heads(f"{prefix}parameter", "parameter")
    return xml_syntax(
        call=attribute(f"{mark}invoke", "name", "(?P<empty>/)?", stray=stray),
        call_heads=calls,
        call_part=begun(*calls, stray=stray),
        parameter=attribute(f"(?:{mark})?parameter", "key", _STRING),
        parameter_heads=parameters,
        parameter_part=begun(*parameters),
        value_close=f"</{prefix}parameter>",
        call_close=f"</{prefix}invoke>",
        close=close,
        noise=noise,
        newlines=newlines,
    )


def invoke_calls(
    wrapper: str, prefix: str = "", *, noise: tuple[str, ...] = (), stray: str = "", typed: bool = False
) -> XmlCalls:
    """`<invoke name="f"><parameter name="x">…</parameter></invoke>` within `<wrapper>`, as `invoke_tags` reads them.

    typed: an attribute says whether a value is a string, and its line breaks are its own.
    """
    written = Tags(
        opening=f"<{wrapper}>\n",
        closing=f"\n</{wrapper}>",
        call=f'<{prefix}invoke name="{{name}}">\n',
        call_end=f"</{prefix}invoke>",
        parameter=f'<{prefix}parameter name="{{key}}"' + (' string="{kind}">' if typed else ">"),
        parameter_end=f"</{prefix}parameter>",
        key=ATTRIBUTE,
        more=("<parameter",) if prefix else (),
        exact=typed,
    )
    return XmlCalls(invoke_tags(f"</{wrapper}>", prefix, noise=noise, stray=stray, newlines=not typed), written)


def key_value_calls(*, lines: bool, tag: str = "tool_call", newlines: bool = True) -> XmlCalls:
    """`<tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>`.

    lines: each part on a line of its own. newlines: a value may stand on lines of its own, which are markup.
    """
    gap = "\n" if lines else ""
    written = Tags(
        between=gap,
        call=f"<{tag}>{{name}}{gap}",
        call_end=f"</{tag}>",
        parameter=f"<arg_key>{{key}}</arg_key>{gap}<arg_value>",
        parameter_end="</arg_value>",
        gap=gap,
        key=r"[^<]{1,256}",
        exact=not newlines,
    )
    return XmlCalls(key_value_tags(tag=tag, newlines=newlines), written)


def key_value_tags(prefix: str = "", *, tag: str = "tool_call", newlines: bool = True) -> XmlSyntax:
    """`f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>`, each tag's name with `prefix` before it."""
    key, end = f"<{prefix}arg_key>", f"</{prefix}{tag}>"
    ws, gap = r"[ \t\r\n]{0,64}", r"[ \t\r\n]{1,64}"
    name = r"[^\s<>{}\[\]\"'`]{1,256}"
    # Between a name and its first key the opening tag is sometimes missing, or the one of a call stands there.
    joint = rf"(?:{gap}|<{prefix}{tag}>)"
    # The key's own closing tag may be that of a value, or missing before the value.
    key_end = rf"(?:</{prefix}arg_(?:key|value)>|(?=<{prefix}arg_value>))"
    kind = r"(?:function[ \t]{0,8}\r?\n)?"  # before the name: Step-Audio 2
    return xml_syntax(
        call=re.compile(
            rf"{kind}(?P<name>{name}){ws}(?:<tool_sep>{ws})?(?=<{prefix}arg_key>|</{prefix}arg_value>|{end}|\{{)"
        ),
        call_heads=(),
        call_part=re.compile(rf"{kind}{name}(?:{joint}(?:{name})?|{ws}(?:<tool_sep>{ws})?)(?:<[/a-z_]{{0,20}})?"),
        parameter=re.compile(rf"(?:{key}{ws}){{1,4}}(?P<key>[^<]{{1,256}}){key_end}"),
        parameter_heads=(key,),
        parameter_part=re.compile(rf"(?:{key}{ws}){{1,4}}[^<]{{0,256}}(?:</?[a-z_]{{0,24}})?"),
        joined=re.compile(rf"(?P<joined>{name}(?:{joint}{name})?)</{prefix}arg_key>"),
        key_close=f"</{prefix}arg_key>",
        value_open=f"<{prefix}arg_value>",
        value_close=f"</{prefix}arg_value>",
        call_close=end,
        close=end,
        reopen=(f"<{prefix}{tag}>",),
        bare_name=True,
        newlines=newlines,
    )
