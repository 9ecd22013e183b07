"""What all hosts share: bodies, headers and messages of ASGI."""
