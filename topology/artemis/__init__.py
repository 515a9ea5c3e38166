"""ActiveMQ Artemis's address settings: values, delays, wildcards, and how they are merged."""
