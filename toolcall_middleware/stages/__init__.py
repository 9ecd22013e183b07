"""The decisions about one request, one a file."""
