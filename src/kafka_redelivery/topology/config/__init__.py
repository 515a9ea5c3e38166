"""The configuration file: parsed, validated with all errors at once, and turned into typed settings."""
