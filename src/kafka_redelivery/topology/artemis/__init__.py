"""ActiveMQ Artemis: address settings, their delays and wildcards, and how matching settings are merged."""
