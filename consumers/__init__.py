"""What runs: the worker with its handler slots, the delay scheduler, and their wiring."""
