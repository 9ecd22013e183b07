"""OpenAI's Responses API as a client speaks it, without state."""
