"""Dead letters sent again: what a job selects, what it and its slices write, and to whom a letter belongs."""
