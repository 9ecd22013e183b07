"""Model text to events. Knows no HTTP and no OpenAI."""
