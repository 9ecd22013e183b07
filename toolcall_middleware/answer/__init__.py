"""What an answer says, as operations, and what writes them for a client."""
