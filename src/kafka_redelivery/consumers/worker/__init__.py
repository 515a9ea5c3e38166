"""The worker process: its poll loop, rebalances, handler deadlines and shutdown."""
