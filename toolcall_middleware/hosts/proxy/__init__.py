"""The reverse proxy: the middleware around a forwarder."""
