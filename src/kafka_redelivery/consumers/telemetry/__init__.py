"""What a process reports: metrics, health, logs, and the HTTP endpoint that serves metrics and probes."""
