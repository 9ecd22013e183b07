"""Calls written as JSON."""
