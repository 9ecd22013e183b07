"""Observers of requests: metrics, traces, spans, and the inspector's list."""
