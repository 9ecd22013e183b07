"""How model families write calls, one file a way of writing."""
