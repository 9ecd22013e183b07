"""Messages as a client speaks it, turned into a chat completion and its answer back."""
