"""A backend's answer becomes the client's: streams and whole answers, by one parser."""
