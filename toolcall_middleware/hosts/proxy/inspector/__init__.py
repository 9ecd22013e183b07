"""A page that shows exchanges: live ones of this proxy, or those of trace files."""
