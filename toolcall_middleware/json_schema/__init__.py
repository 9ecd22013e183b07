"""JSON Schemas of strangers: read, checked, shortened, and held against values. No $ref leaves the document."""
