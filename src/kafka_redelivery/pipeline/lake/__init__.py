"""Tables in the lake: their files, their format, and the checkpoints of queries that append to them."""
