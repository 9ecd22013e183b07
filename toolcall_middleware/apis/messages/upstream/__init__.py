"""Messages as an upstream answers it, behind chat completions."""
