"""What an operator sees of a running group, and does to it."""
