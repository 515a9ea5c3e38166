"""The delay scheduler: reads the retry tiers and releases the records that are due."""
