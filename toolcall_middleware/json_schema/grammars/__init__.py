"""Grammars of custom tools as patterns of JSON Schema."""
