"""Everything that talks to Kafka: consumers, producers, admin requests and an embedded broker."""
