"""Rules that involve more than one setting, or that need knowledge of Kafka."""
