"""Two sets of eight tools, three questions a tool with the call that is right, and questions that no tool fits.

Written for this benchmark. The two sets differ in what they are about, so that a prompt is not tuned to one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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


def _tool(name: str, description: str, required: list[str], /, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _ask(tool: str, text: str, /, **arguments: Any) -> Question:
    accepted = ((name, value if isinstance(value, tuple) else (value,)) for name, value in arguments.items())
    return Question(text, tool, tuple(accepted))


ANY: tuple[Any, ...] = ()

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

_DAILY = (
    _ask("get_weather", "What is the weather in Oslo?", city="oslo"),
    _ask("get_weather", "Is it raining in Lisbon right now?", city="lisbon"),
    _ask("get_weather", "How warm is it in Cairo, in celsius?", city="cairo", unit="celsius"),
    _ask("get_time", "What time is it in Tokyo?", city="tokyo"),
    _ask("get_time", "Tell me the local time in Denver.", city="denver"),
    _ask("get_time", "How late is it in Sydney?", city="sydney"),
    _ask("add", "Add 2 and 3.", a=2, b=3),
    _ask("add", "What is 17 plus 25?", a=17, b=25),
    _ask("add", "Compute the sum of 120 and 80.", a=120, b=80),
    _ask(
        "send_email",
        "Send an email to tom@example.com that says the meeting is at noon.",
        to="tom@example.com",
        subject=ANY,
        body=ANY,
    ),
    _ask(
        "send_email",
        "Email lisa@example.com with the subject Hello and the text How are you?",
        to="lisa@example.com",
        subject="hello",
        body=("how are you?", "how are you"),
    ),
    _ask(
        "send_email",
        "Write a mail to bob@example.com: the invoice is paid.",
        to="bob@example.com",
        subject=ANY,
        body=ANY,
    ),
    _ask("search_web", "Search the web for cheap flights to Rome.", query=("cheap flights to rome",)),
    _ask(
        "search_web",
        "Look up recipes for lentil soup on the internet.",
        query=(
            "recipes for lentil soup",
            "lentil soup recipes",
            "lentil soup",
            "recipe for lentil soup",
            "lentil soup recipe",
        ),
    ),
    _ask(
        "search_web",
        "Find articles about solar panels.",
        query=("articles about solar panels", "solar panels", "solar panel articles", "solar panels articles"),
    ),
    _ask("set_timer", "Set a timer for 60 seconds.", seconds=60),
    _ask("set_timer", "Start a timer of 90 seconds for the eggs.", seconds=90),
    _ask("set_timer", "Remind me in 30 seconds.", seconds=30),
    _ask("convert_currency", "Convert 100 USD to EUR.", amount=100, **{"from": "usd", "to": "eur"}),
    _ask("convert_currency", "How much is 50 GBP in JPY?", amount=50, **{"from": "gbp", "to": "jpy"}),
    _ask("convert_currency", "Change 20 EUR into CHF.", amount=20, **{"from": "eur", "to": "chf"}),
    _ask("translate", "Translate 'good morning' into French.", text="good morning", language=("french", "fr")),
    _ask("translate", "How do you say 'thank you' in German?", text="thank you", language=("german", "de")),
    _ask("translate", "Translate the word apple to Spanish.", text="apple", language=("spanish", "es")),
)

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

_WORK = (
    _ask("read_file", "Show me the content of notes.txt.", path="notes.txt"),
    _ask("read_file", "Open the file src/main.py and read it.", path="src/main.py"),
    _ask("read_file", "What does the file config.yaml say?", path="config.yaml"),
    _ask("list_files", "List the files in the directory src.", directory=("src", "src/", "./src")),
    _ask("list_files", "Which files are in /tmp?", directory=("/tmp", "/tmp/")),  # noqa: S108 - a question
    _ask("list_files", "What is in the folder docs?", directory=("docs", "docs/", "./docs")),
    _ask("run_command", "Run the command git status.", command="git status"),
    _ask("run_command", "Run npm test in the shell.", command="npm test"),
    _ask("run_command", "Execute ls -la.", command="ls -la"),
    _ask("create_event", "Put a dentist visit into my calendar on 2026-03-04.", title=ANY, date="2026-03-04"),
    _ask(
        "create_event", "Create an event called Sprint review on 2026-04-15.", title="sprint review", date="2026-04-15"
    ),
    _ask("create_event", "Add lunch with Kim to the calendar for 2026-05-01.", title=ANY, date="2026-05-01"),
    _ask("get_stock_price", "What is the stock price of AAPL?", symbol="aapl"),
    _ask("get_stock_price", "How much is a share of MSFT?", symbol="msft"),
    _ask("get_stock_price", "Get the latest price of NVDA.", symbol="nvda"),
    _ask("lookup_order", "Where is my order 4711?", order_id=4711),
    _ask("lookup_order", "Look up the order with the number 1203.", order_id=1203),
    _ask("lookup_order", "Has order 88 been sent?", order_id=88),
    _ask("book_table", "Book a table for 4 people at Luigi.", restaurant=("luigi", "luigi's"), people=4),
    _ask("book_table", "Reserve a table for 2 at Sakura, outside.", restaurant="sakura", people=2, place="outside"),
    _ask("book_table", "We are 6 and want to eat at Seaview. Get us a table.", restaurant="seaview", people=6),
    _ask("play_music", "Play some music by Mozart.", name="mozart"),
    _ask("play_music", "Play the song Imagine.", name="imagine"),
    _ask("play_music", "I want to hear Miles Davis.", name="miles davis"),
)

_UNFITTING = (
    Question("Hello, how are you?"),
    Question("Thank you, that was all."),
    Question("What is your name?"),
    Question("Tell me a joke."),
)

SETS = (
    QuestionSet("daily", _DAILY_TOOLS, _DAILY, _UNFITTING),
    QuestionSet("work", _WORK_TOOLS, _WORK, _UNFITTING),
)
