"""Token usage: the backend's own numbers where it gives any, else counted here."""
