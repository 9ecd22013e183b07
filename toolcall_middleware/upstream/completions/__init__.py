"""The backend is asked for text completions: the model's own template writes the prompt."""
