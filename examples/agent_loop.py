"""An agent with the OpenAI SDK: the model calls tools, this program runs them, until the model answers in text.

Run:  pip install openai
      python examples/agent_loop.py --base-url http://127.0.0.1:8000/v1 [--model NAME] [--stream] "Your question"
"""

import argparse
import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from openai import OpenAI, OpenAIError


def get_weather(city: str) -> str:
    """A canned answer: the example is about the loop."""
    return f"18 degrees, light rain in {city}"


def get_time(timezone: str) -> str:
    """The current time in a timezone."""
    return datetime.now(ZoneInfo(timezone)).strftime("%H:%M")


def tool(name: str, description: str, parameter: str) -> Any:
    """A tool with one string parameter, as the API wants it."""
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


FUNCTIONS: dict[str, Callable[..., str]] = {"get_weather": get_weather, "get_time": get_time}
TOOLS = [
    tool("get_weather", "The current weather in a city.", "city"),
    tool("get_time", "The current time in a timezone such as Europe/Paris.", "timezone"),
]


def run_tool(name: str, arguments: str) -> str:
    """Runs a tool. The model is sent the error of its own mistake, so that it can correct it in the next turn."""
    try:
        return FUNCTIONS[name](**json.loads(arguments))
    except (KeyError, TypeError, ValueError, OSError) as error:
        return f"error: {type(error).__name__}: {error}"


def ask(client: OpenAI, options: dict[str, Any], *, stream: bool) -> Any:
    """One turn of the model: a message with text, with calls, or with both."""
    if not stream:
        return client.chat.completions.create(**options).choices[0].message
    with client.chat.completions.stream(**options) as events:
        for event in events:
            if event.type == "content.delta":
                print(event.delta, end="", flush=True)
        return events.get_final_completion().choices[0].message


def loop(client: OpenAI, model: str, question: str, *, stream: bool = False, turns: int = 6) -> str | None:
    """Asks until there is an answer; None when `turns` were not enough."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    for _ in range(turns):
        options = {"model": model, "messages": messages, "tools": TOOLS, "max_tokens": 256}
        message = ask(client, options, stream=stream)
        if not message.tool_calls:
            return str(message.content)
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
        messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        for call in message.tool_calls:
            result = run_tool(call.function.name, call.function.arguments)
            print(f"[{call.function.name} {call.function.arguments} -> {result}]")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return None


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("question")
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="toy")
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args()
    try:
        with OpenAI(base_url=options.base_url, api_key="not needed") as client:
            answer = loop(client, options.model, options.question, stream=options.stream)
    except OpenAIError as error:
        print(f"{options.base_url}: {error}", file=sys.stderr)
        return 1
    if answer is None:
        print("No answer: the model went on calling tools.", file=sys.stderr)
        return 1
    print("" if options.stream else answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
