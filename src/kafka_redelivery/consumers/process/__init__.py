"""What every process needs: its name and Kafka clients, its start and end, background threads, signals."""
