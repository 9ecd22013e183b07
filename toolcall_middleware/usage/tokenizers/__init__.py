"""Counting tokens: vocabularies, chat templates, and an approximation. No I/O but the reading of their files."""
