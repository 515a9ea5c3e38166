"""Admin requests: topics, configurations, offsets, group members and the deletion of records."""
