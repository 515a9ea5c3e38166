"""Names of Kafka topics, and the retry tiers that a group needs."""
