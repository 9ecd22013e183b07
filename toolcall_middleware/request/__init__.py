"""A client's request: read, checked, and held against what an operator allows."""
