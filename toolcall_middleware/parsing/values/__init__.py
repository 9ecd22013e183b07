"""Readers of values: JSON, Python's and Gemma's notations."""
