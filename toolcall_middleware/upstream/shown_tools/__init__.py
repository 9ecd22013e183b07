"""What a model is shown of many tools."""
