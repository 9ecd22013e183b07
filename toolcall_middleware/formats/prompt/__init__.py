"""What the formats share when they write a prompt."""
