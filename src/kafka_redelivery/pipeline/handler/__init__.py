"""The handler in its own process beside a Spark task, and the messages between the two."""
