"""OpenAI's text completions, as a backend speaks them: a chat completion with a written prompt, in and out. No I/O."""
