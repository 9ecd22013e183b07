"""Anthropic's Messages API, both as a client speaks it and as an upstream answers it."""
