"""How calls are written, one file a syntax that families share."""
