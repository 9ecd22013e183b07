"""Where a reader of JSON stands: what it expects next, what is open, and what it holds back.

The parts of a `JsonReader` share one `Position`, so that each piece of text may be read by another part.
"""

from __future__ import annotations

# What is expected next, or stands open. The table (`json_table`) knows those up to `WORD`.
VALUE = 0  # a value
FIRST_ITEM = 1  # after `[`: a value or `]`
FIRST_KEY = 2  # after `{`: a key or `}`
KEY = 3  # after `,` in an object
COLON = 4
AFTER = 5  # after a value in a container
COMMA = 6  # a comma is held until it is known not to be a trailing one
STRING = 7
ESCAPE = 8  # the start of an escape is held
QUOTE = 9  # a quote is held until the next character tells whether it ends the string
WORD = 10  # a number, a literal or an unquoted word is held until its end
WORDS = 11  # an unquoted string that has begun to leave
DONE = 12
# Triple quotes: states of `json_extensions.TripleQuotes`.
OPENED = 13  # a value's opening quote: two more may make it a triple one
SECOND = 14  # two quotes have come, and nothing in between
THIRD = 15  # three quotes have come
TRIPLE = 16  # in a string in triple quotes
CLOSING = 17  # quotes in it are held: three of them end it
BACKSLASH = 18  # an escape in it is held
# Comments: states of `json_extensions.Comments`.
SLASH = 20  # a slash is held that may begin a comment
LINE = 21  # in a comment that ends with its line
BLOCK = 22  # in one that ends with `*/`
STAR = 23  # in such a comment, behind a star


class Position:
    """Where a `JsonReader` stands in its value."""

    __slots__ = (
        "doubtful", "held", "is_key", "objects", "quote", "repaired", "settled", "stack", "state", "stuck", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state = VALUE
        self.stack: list[str] = []
        """The open containers, by their brackets."""
        self.objects = 0
        """How many of them are objects."""
        self.held: list[str] = []
        """Text that was read and waits for what follows it."""
        self.quote = '"'
        """The quote of the last string."""
        self.is_key = False
        """Whether the last string or word is a key."""
        self.repaired = False
        self.settled = False
        self.doubtful = False
        self.stuck = False
        self.waits = False
        """Whether more must be seen of what stands at the index that was returned."""

    def hold(self, text: str, state: int) -> None:
        """Hold `text` back, and nothing else."""
        self.held = [text]
        self.state = state

    def take_held(self) -> str:
        """What was held, which no longer is."""
        held = "".join(self.held)
        self.held = []
        return held

    def after_value(self) -> int:
        """The state behind a value."""
        return AFTER if self.stack else DONE

    def after_string(self) -> int:
        """The state behind a string, which may be a key."""
        return COLON if self.is_key else self.after_value()

    def after_comma(self) -> int:
        """The state behind a comma that is none too many."""
        return KEY if self.stack[-1] == "{" else VALUE

    def escaped_quote(self) -> str:
        """The quote of the string at hand, as data."""
        return '\\"' if self.quote == '"' else "'"
