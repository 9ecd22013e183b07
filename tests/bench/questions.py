"""What models and engines are asked in benchmarks: tools, requests, and the call that is right. Written for these.

Ten tools with six requests each; and two sets of eight tools with three questions each, for small models. The two sets
differ in what they are about, so that a prompt is not tuned to one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def _tool(name: str, description: str, required: list[str], /, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_TEXT: dict[str, Any] = {"type": "string"}
_DATE: dict[str, Any] = {"type": "string", "description": "YYYY-MM-DD"}
_PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": _TEXT, "email": _TEXT},
    "required": ["name"],
    "additionalProperties": False,
}

TOOLS: list[dict[str, Any]] = [
    _tool("get_weather", "The weather in a city.", ["city"], city=_TEXT, unit={"enum": ["celsius", "fahrenheit"]}),
    _tool("get_time", "The local time in a city.", ["city"], city=_TEXT),
    _tool(
        "send_email", "Sends an email.", ["to", "subject", "body"],
        to={"type": "array", "items": _PERSON, "minItems": 1}, subject=_TEXT, body=_TEXT,
    ),
    _tool(
        "create_event", "Puts an event into the calendar.", ["title", "date"],
        title=_TEXT, date=_DATE, minutes={"type": "integer", "minimum": 5, "maximum": 600},
    ),
    _tool("search_web", "Searches the web.", ["query"], query=_TEXT, results={"type": "integer", "minimum": 1}),
    _tool(
        "convert_currency", "Converts an amount of money.", ["amount", "from", "to"],
        amount={"type": "number"},
        **{"from": {"enum": ["EUR", "USD", "GBP", "JPY"]}, "to": {"enum": ["EUR", "USD", "GBP", "JPY"]}},
    ),
    _tool("translate", "Translates a text.", ["text", "language"], text=_TEXT, language=_TEXT),
    _tool("set_timer", "Starts a timer.", ["seconds"], seconds={"type": "integer", "minimum": 1}, label=_TEXT),
    _tool("play_music", "Plays music.", ["what"], what=_TEXT, shuffle={"type": "boolean"}),
    _tool(
        "book_table", "Books a table in a restaurant.", ["restaurant", "people"],
        restaurant=_TEXT, people={"type": "integer", "minimum": 1, "maximum": 20},
        wishes={"type": "array", "items": {"enum": ["window", "outside", "quiet", "vegan"]}, "maxItems": 4},
    ),
]  # fmt: skip
for _one in TOOLS:
    _one["function"]["parameters"]["additionalProperties"] = False

_REQUESTS = """
What is the weather in Paris?
Will I need an umbrella in London today?
How warm is it in Cairo, in fahrenheit?
Is it snowing in Oslo right now?
Tell me the weather in Tokyo.
Is it windy in Chicago?

What time is it in New York?
How late is it in Sydney now?
Tell me the local time in Berlin.
What is the time in Mumbai?
Is it already night in Lima? Look up the time.
Which hour is it in Nairobi?

Email Anna that I will be late.
Write an email to bob@example.com with the subject Invoice and the text: it is paid.
Send Maria an email and thank her for the cake.
Mail Tom and Lisa that the meeting is cancelled.
Send an email to the landlord: the heating is broken.
Email Peter happy birthday.

Put a dentist visit into my calendar for 2026-03-04.
Add an event: lunch with Kim on 2026-05-01.
Make a calendar entry for the concert on 2026-07-12, two hours.
Schedule a 30 minutes call with the bank on 2026-02-10.
Note in the calendar: mother's birthday, 2026-09-23.
Create an event called Sprint review on 2026-04-15.

Search the web for cheap flights to Rome.
Find articles about solar panels on the internet.
Look up who won the chess championship.
Search for a recipe for lentil soup.
Google the opening hours of the British Museum.
Find three websites about knitting.

How much is 100 dollars in euros?
Convert 50 GBP to USD.
What are 2000 yen in pounds?
Change 12.50 euros into dollars.
How many yen do I get for 300 EUR?
Convert 1 USD to GBP.

Translate 'good morning' into French.
How do you say 'thank you' in Japanese?
Translate the sentence 'Where is the station?' to German.
What is 'apple' in Spanish?
Translate 'I love you' into Italian.
Say 'see you tomorrow' in Dutch.

Set a timer for 60 seconds.
Start a timer of five minutes for the eggs.
Remind me in 30 seconds.
Timer for 90 seconds, please.
Set a pizza timer for 720 seconds.
Wake me up in ten minutes with a timer.

Play some jazz.
Play the album Abbey Road, shuffled.
I want to hear Mozart.
Put on some dance music.
Play Bohemian Rhapsody by Queen.
Play relaxing piano music.

Book a table for four at Luigi's.
Reserve a table for 2 people at The Golden Dragon, by the window.
I need a quiet table for six at Chez Marie.
Get us a table at Burger House, we are three.
Book a table outside for 5 people at Seaview.
Reserve dinner for two at the restaurant Sakura.
"""
QUESTIONS: dict[str, list[str]] = {
    tool["function"]["name"]: lines.strip().splitlines()
    for tool, lines in zip(TOOLS, _REQUESTS.split("\n\n"), strict=True)
}
"""By tool."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the tool that fits it (empty: none does) and the arguments that are right.

    Each argument has its accepted values, compared without case; an empty tuple accepts any value that is not empty.
    """

    text: str
    tool: str = ""
    arguments: tuple[tuple[str, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Tools and what is asked of them."""

    name: str
    tools: list[dict[str, Any]]
    questions: tuple[Question, ...]
    unfitting: tuple[Question, ...]


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _questions(table: str) -> tuple[Question, ...]:
    """A question a line: its tool, its text, its arguments with ` or ` between accepted values; `*` accepts any."""
    made = []
    for line in table.strip().splitlines():
        tool, text, given = line.split(" | ")
        arguments = (argument.partition("=")[::2] for argument in given.split("; "))
        made.append(Question(text, tool, tuple((name, _accepted(values)) for name, values in arguments)))
    return tuple(made)


def _accepted(values: str) -> tuple[Any, ...]:
    return () if values == "*" else tuple(int(one) if one.isdecimal() else one for one in values.split(" or "))


_DAILY_TOOLS = [
    _tool(
        "get_weather", "Get the current weather in a city.", ["city"],
        city=_text("The city"), unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
    ),
    _tool("get_time", "Get the local time in a city.", ["city"], city=_text("The city")),
    _tool("add", "Add two numbers.", ["a", "b"], a={"type": "number"}, b={"type": "number"}),
    _tool(
        "send_email", "Send an email.", ["to", "subject", "body"],
        to=_text("The recipient's address"), subject=_text(), body=_text(),
    ),
    _tool("search_web", "Search the web.", ["query"], query=_text("What to search for")),
    _tool(
        "set_timer", "Start a timer.", ["seconds"],
        seconds={"type": "integer", "minimum": 1}, label=_text("A name for the timer"),
    ),
    _tool(
        "convert_currency", "Convert an amount of money.", ["amount", "from", "to"],
        amount={"type": "number"},
        **{"from": _text("ISO code, such as EUR"), "to": _text("ISO code, such as USD")},
    ),
    _tool("translate", "Translate a text.", ["text", "language"], text=_text(), language=_text("The target language")),
]  # fmt: skip

_DAILY = _questions("""
get_weather | What is the weather in Oslo? | city=oslo
get_weather | Is it raining in Lisbon right now? | city=lisbon
get_weather | How warm is it in Cairo, in celsius? | city=cairo; unit=celsius
get_time | What time is it in Tokyo? | city=tokyo
get_time | Tell me the local time in Denver. | city=denver
get_time | How late is it in Sydney? | city=sydney
add | Add 2 and 3. | a=2; b=3
add | What is 17 plus 25? | a=17; b=25
add | Compute the sum of 120 and 80. | a=120; b=80
send_email | Send an email to tom@example.com that says the meeting is at noon. | to=tom@example.com; subject=*; \
body=*
send_email | Email lisa@example.com with the subject Hello and the text How are you? | to=lisa@example.com; \
subject=hello; body=how are you? or how are you
send_email | Write a mail to bob@example.com: the invoice is paid. | to=bob@example.com; subject=*; body=*
search_web | Search the web for cheap flights to Rome. | query=cheap flights to rome
search_web | Look up recipes for lentil soup on the internet. | query=recipes for lentil soup or lentil soup \
recipes or lentil soup or recipe for lentil soup or lentil soup recipe
search_web | Find articles about solar panels. | query=articles about solar panels or solar panels or solar panel \
articles or solar panels articles
set_timer | Set a timer for 60 seconds. | seconds=60
set_timer | Start a timer of 90 seconds for the eggs. | seconds=90
set_timer | Remind me in 30 seconds. | seconds=30
convert_currency | Convert 100 USD to EUR. | amount=100; from=usd; to=eur
convert_currency | How much is 50 GBP in JPY? | amount=50; from=gbp; to=jpy
convert_currency | Change 20 EUR into CHF. | amount=20; from=eur; to=chf
translate | Translate 'good morning' into French. | text=good morning; language=french or fr
translate | How do you say 'thank you' in German? | text=thank you; language=german or de
translate | Translate the word apple to Spanish. | text=apple; language=spanish or es
""")

_WORK_TOOLS = [
    _tool(
        "read_file", "Read a text file and return its content.", ["path"],
        path=_text("Path of the file"), limit={"type": "integer", "description": "Most lines to return"},
    ),
    _tool("list_files", "List the files in a directory.", ["directory"], directory=_text("Path of the directory")),
    _tool(
        "run_command", "Run a shell command.", ["command"],
        command=_text("The command line"), timeout={"type": "integer", "description": "Seconds"},
    ),
    _tool(
        "create_event", "Put an event into the calendar.", ["title", "date"],
        title=_text(), date=_text("YYYY-MM-DD"), attendees={"type": "array", "items": {"type": "string"}},
    ),
    _tool("get_stock_price", "Get the latest price of a stock.", ["symbol"], symbol=_text("The ticker symbol")),
    _tool("lookup_order", "Look up the state of an order.", ["order_id"], order_id={"type": "integer"}),
    _tool(
        "book_table", "Book a table in a restaurant.", ["restaurant", "people"],
        restaurant=_text(), people={"type": "integer", "minimum": 1},
        place={"type": "string", "enum": ["inside", "outside"]},
    ),
    _tool(
        "play_music", "Play a song or an artist.", ["name"],
        name=_text("The song or the artist"), shuffle={"type": "boolean"},
    ),
]  # fmt: skip

_WORK = _questions("""
read_file | Show me the content of notes.txt. | path=notes.txt
read_file | Open the file src/main.py and read it. | path=src/main.py
read_file | What does the file config.yaml say? | path=config.yaml
list_files | List the files in the directory src. | directory=src or src/ or ./src
list_files | Which files are in /tmp? | directory=/tmp or /tmp/
list_files | What is in the folder docs? | directory=docs or docs/ or ./docs
run_command | Run the command git status. | command=git status
run_command | Run npm test in the shell. | command=npm test
run_command | Execute ls -la. | command=ls -la
create_event | Put a dentist visit into my calendar on 2026-03-04. | title=*; date=2026-03-04
create_event | Create an event called Sprint review on 2026-04-15. | title=sprint review; date=2026-04-15
create_event | Add lunch with Kim to the calendar for 2026-05-01. | title=*; date=2026-05-01
get_stock_price | What is the stock price of AAPL? | symbol=aapl
get_stock_price | How much is a share of MSFT? | symbol=msft
get_stock_price | Get the latest price of NVDA. | symbol=nvda
lookup_order | Where is my order 4711? | order_id=4711
lookup_order | Look up the order with the number 1203. | order_id=1203
lookup_order | Has order 88 been sent? | order_id=88
book_table | Book a table for 4 people at Luigi. | restaurant=luigi or luigi's; people=4
book_table | Reserve a table for 2 at Sakura, outside. | restaurant=sakura; people=2; place=outside
book_table | We are 6 and want to eat at Seaview. Get us a table. | restaurant=seaview; people=6
play_music | Play some music by Mozart. | name=mozart
play_music | Play the song Imagine. | name=imagine
play_music | I want to hear Miles Davis. | name=miles davis
""")

_UNFITTING = tuple(
    map(Question, ("Hello, how are you?", "Thank you, that was all.", "What is your name?", "Tell me a joke."))
)
SETS = (
    QuestionSet("daily", _DAILY_TOOLS, _DAILY, _UNFITTING),
    QuestionSet("work", _WORK_TOOLS, _WORK, _UNFITTING),
)
