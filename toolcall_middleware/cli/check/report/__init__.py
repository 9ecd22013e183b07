"""A check as something that can be published and compared: a JSON file for programs, a page for people."""
