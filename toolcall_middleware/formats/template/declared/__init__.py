"""What a checkpoint itself declares of how its answers are read."""
