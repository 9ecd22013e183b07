"""The APIs that clients speak, from the client's side: questions in each, and answers read by the API's own rules.

Shared by the commands that ask (`demo`, `check`) or read what was recorded (`replay`). It shares no code with the faces
themselves, because it is what they are checked against.
"""
