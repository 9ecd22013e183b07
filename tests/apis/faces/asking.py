"""The same request on each face."""

from __future__ import annotations

from typing import Any

import httpx

from toolcall_middleware.cli.faces.requests import HEADERS, PATHS, request_body

__all__ = ["HI", "PATHS", "body_of", "chat_tool", "post"]

HI = [{"role": "user", "content": "hi"}]


def chat_tool(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": schema}}


def body_of(api: str, *tools: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A request with these tools of a chat completion in the words of `api`."""
    return {**request_body(api, {"model": "m", "messages": HI, "tools": list(tools)}), **fields}


async def post(app: Any, api: str, body: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        return await client.post(PATHS[api], json=body, headers=HEADERS[api])
