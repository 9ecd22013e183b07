"""A model's text: prose, code, reasoning, and where a call may begin."""
