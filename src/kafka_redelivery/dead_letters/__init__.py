"""Dead letters: which are meant, what became of them, and the jobs that send them again, each exactly once."""
