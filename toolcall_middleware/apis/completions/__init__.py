"""OpenAI's text completions, as a backend speaks them: a chat completion whose prompt is written goes in and out. No I/O."""
