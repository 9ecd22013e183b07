"""Ten tools and sixty requests, six a tool, with the tool that a person would pick. Written for this benchmark."""

from __future__ import annotations

from typing import Any


def _tool(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
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

QUESTIONS: dict[str, list[str]] = {
    "get_weather": [
        "What is the weather in Paris?",
        "Will I need an umbrella in London today?",
        "How warm is it in Cairo, in fahrenheit?",
        "Is it snowing in Oslo right now?",
        "Tell me the weather in Tokyo.",
        "Is it windy in Chicago?",
    ],
    "get_time": [
        "What time is it in New York?",
        "How late is it in Sydney now?",
        "Tell me the local time in Berlin.",
        "What is the time in Mumbai?",
        "Is it already night in Lima? Look up the time.",
        "Which hour is it in Nairobi?",
    ],
    "send_email": [
        "Email Anna that I will be late.",
        "Write an email to bob@example.com with the subject Invoice and the text: it is paid.",
        "Send Maria an email and thank her for the cake.",
        "Mail Tom and Lisa that the meeting is cancelled.",
        "Send an email to the landlord: the heating is broken.",
        "Email Peter happy birthday.",
    ],
    "create_event": [
        "Put a dentist visit into my calendar for 2026-03-04.",
        "Add an event: lunch with Kim on 2026-05-01.",
        "Make a calendar entry for the concert on 2026-07-12, two hours.",
        "Schedule a 30 minutes call with the bank on 2026-02-10.",
        "Note in the calendar: mother's birthday, 2026-09-23.",
        "Create an event called Sprint review on 2026-04-15.",
    ],
    "search_web": [
        "Search the web for cheap flights to Rome.",
        "Find articles about solar panels on the internet.",
        "Look up who won the chess championship.",
        "Search for a recipe for lentil soup.",
        "Google the opening hours of the British Museum.",
        "Find three websites about knitting.",
    ],
    "convert_currency": [
        "How much is 100 dollars in euros?",
        "Convert 50 GBP to USD.",
        "What are 2000 yen in pounds?",
        "Change 12.50 euros into dollars.",
        "How many yen do I get for 300 EUR?",
        "Convert 1 USD to GBP.",
    ],
    "translate": [
        "Translate 'good morning' into French.",
        "How do you say 'thank you' in Japanese?",
        "Translate the sentence 'Where is the station?' to German.",
        "What is 'apple' in Spanish?",
        "Translate 'I love you' into Italian.",
        "Say 'see you tomorrow' in Dutch.",
    ],
    "set_timer": [
        "Set a timer for 60 seconds.",
        "Start a timer of five minutes for the eggs.",
        "Remind me in 30 seconds.",
        "Timer for 90 seconds, please.",
        "Set a pizza timer for 720 seconds.",
        "Wake me up in ten minutes with a timer.",
    ],
    "play_music": [
        "Play some jazz.",
        "Play the album Abbey Road, shuffled.",
        "I want to hear Mozart.",
        "Put on some dance music.",
        "Play Bohemian Rhapsody by Queen.",
        "Play relaxing piano music.",
    ],
    "book_table": [
        "Book a table for four at Luigi's.",
        "Reserve a table for 2 people at The Golden Dragon, by the window.",
        "I need a quiet table for six at Chez Marie.",
        "Get us a table at Burger House, we are three.",
        "Book a table outside for 5 people at Seaview.",
        "Reserve dinner for two at the restaurant Sakura.",
    ],
}
