"""The middleware around an ASGI app."""
