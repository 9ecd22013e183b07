"""Readers of calls, one a syntax."""
