"""`format=template`: a family read off the chat template that a model's checkpoint holds.

The template is rendered for conversations that differ in one thing, and the differences show how its model writes
calls.
"""
