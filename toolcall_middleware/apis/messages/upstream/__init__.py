"""Messages as the API of an upstream, translated from and to chat completions."""
