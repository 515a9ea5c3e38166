"""The only package that talks to Kafka: consumers, the transactional writer, admin, and the embedded broker."""
