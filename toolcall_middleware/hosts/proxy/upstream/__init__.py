"""One upstream: how it is reached, asked and translated."""
