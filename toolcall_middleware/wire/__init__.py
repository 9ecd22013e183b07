"""Bytes to chunks and back. Knows no formats."""
