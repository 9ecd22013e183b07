"""JSON Schemas of clients: read, checked, shortened, and held against values. No $ref leaves the document."""
