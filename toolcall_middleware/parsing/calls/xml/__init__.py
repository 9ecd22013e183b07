"""Calls written as tags."""
