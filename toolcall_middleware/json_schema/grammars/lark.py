r"""A grammar in Lark's language as one regular expression, where no rule leads back to itself.

Rules and terminals are put in where they are named. What Lark's lexer takes for a terminal, the expression takes too:
so each text of the grammar fits. The grammars that clients send are mostly of this kind, such as that of patches,
which is lines of a few shapes. Whatever else Lark knows (`%ignore`, templates, flags) is not translated.
"""

from __future__ import annotations

import re

from .plain_regex import plain_regex

_RULE = re.compile(r"[?!]?(_?[a-z][a-z0-9_]*|_?[A-Z][A-Z0-9_]*)(?:\.-?[0-9]{1,4})?[ \t]*:[ \t]*")
_IMPORT = re.compile(r"%import[ \t]+common\.([A-Z_]+)[ \t]*(?:->[ \t]*([A-Z_][A-Z0-9_]*)[ \t]*)?")
_TOKEN = re.compile(
    r"""[ \t]+ | (?P<text>"(?:\\.|[^"\\])+")(?!i) | (?P<regex>/(?:\\.|[^/\\])+/)(?![imslux])
    | (?P<alias>->[ \t]*[a-z_0-9]+)
    | (?P<name>_?[a-z][a-z0-9_]*|_?[A-Z][A-Z0-9_]*)(?![A-Za-z0-9_{]) | (?P<mark>[()\[\]|?*+])
    | ~[ \t]*(?P<least>[0-9]{1,4})(?:[ \t]*\.\.[ \t]*(?P<most>[0-9]{1,4}))?""",
    re.VERBOSE,
)
_COMMON = {
    "LF": r"\n", "CR": r"\r", "NEWLINE": r"(\r?\n)+", "DIGIT": "[0-9]", "INT": "[0-9]+", "SIGNED_INT": "[+-]?[0-9]+",
    "HEXDIGIT": "[0-9a-fA-F]", "LETTER": "[A-Za-z]", "LCASE_LETTER": "[a-z]", "UCASE_LETTER": "[A-Z]",
    "WORD": "[A-Za-z]+", "CNAME": "[A-Za-z_][A-Za-z0-9_]*", "WS_INLINE": r"[ \t]+", "WS": r"[ \t\f\r\n]+",
}  # fmt: skip
"""Lark's grammars/common.lark."""
_SPECIAL = re.compile(r"[\\^.*+?(){}|$\[\]]")
_ESCAPES = {"n": r"\n", "r": r"\r", "t": r"\t", "f": r"\f"}
_LONGEST = 4096
_MOST_RULES = 200


def lark_regex(definition: str) -> str | None:
    """The expression, without anchors; None where the grammar is none. Bounded by the length of what it may become."""
    rules = _rules(definition)
    if rules is None or "start" not in rules:
        return None
    return _written("start", rules, {}, ())


def _rules(definition: str) -> dict[str, str] | None:
    """The rules' right sides by name, those of imported terminals as an expression behind `%`."""
    rules: dict[str, str] = {}
    last = ""
    for line in definition.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("//"):
            continue
        if (imported := _IMPORT.fullmatch(bare)) is not None:
            if imported[1] not in _COMMON:
                return None
            rules[imported[2] or imported[1]] = "%" + _COMMON[imported[1]]
        elif (rule := _RULE.match(bare)) is not None:
            last = rule[1]
            if last in rules or len(rules) >= _MOST_RULES:
                return None
            rules[last] = bare[rule.end() :]
        elif bare.startswith("|") and last:
            rules[last] += " " + bare
        else:
            return None
    return rules


def _written(name: str, rules: dict[str, str], done: dict[str, str], within: tuple[str, ...]) -> str | None:
    """The expression of one rule, in a group. within: the rules that lead to it."""
    if name in done:
        return done[name]
    right = rules.get(name)
    if right is None or name in within or len(within) > 50:
        return None
    made = right[1:] if right.startswith("%") else _expression(right, rules, done, (*within, name))
    if made is None or len(made) > _LONGEST:
        return None
    done[name] = f"({made})"
    return done[name]


def _expression(right: str, rules: dict[str, str], done: dict[str, str], within: tuple[str, ...]) -> str | None:
    out: list[str] = []
    open_marks: list[str] = []
    position = length = 0
    while position < len(right):
        token = _TOKEN.match(right, position)
        if token is None or length > _LONGEST:
            return None if not right.startswith("//", position) else _closed(out, open_marks)
        position = token.end()
        piece: str | None = ""
        if token["name"]:
            piece = _written(token["name"], rules, done, within)
        elif token["text"]:
            piece = _literal(token["text"][1:-1])
        elif token["regex"]:
            inner = plain_regex(token["regex"][1:-1].replace("\\/", "/"))
            piece = None if inner is None else f"({inner})"
        elif token["least"]:
            least, most = int(token["least"]), int(token["most"] or token["least"])
            piece = f"{{{least},{most}}}" if least <= most else None
        elif (mark := token["mark"]) in ("(", "["):
            open_marks.append(mark)
            piece = "("
        elif mark in (")", "]"):
            if not open_marks or open_marks.pop() + mark not in ("()", "[]"):
                return None
            piece = ")" if mark == ")" else ")?"
        elif mark:
            piece = mark
        if piece is None:
            return None
        out.append(piece)
        length += len(piece)
    return _closed(out, open_marks)


def _closed(out: list[str], open_marks: list[str]) -> str | None:
    return None if open_marks else plain_regex("".join(out))


def _literal(text: str) -> str | None:
    """A string of the grammar, whose escapes are Python's, in a group: what repeats it repeats it all."""
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
            escaped = _ESCAPES.get(text[position])
            if escaped is None and text[position] not in '\\"/':
                return None
            out.append(escaped or _SPECIAL.sub(r"\\\g<0>", text[position]))
        else:
            out.append(_SPECIAL.sub(r"\\\g<0>", char))
        position += 1
    return f"({''.join(out)})"
