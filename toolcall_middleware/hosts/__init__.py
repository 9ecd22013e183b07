"""Where bytes come in and go out: the only async code."""
