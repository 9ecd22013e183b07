"""What is known of a request, and who is told: metrics, traces, spans, and the inspector's list."""
