"""Kafka topics as Spark DataFrames: records, headers, the group's progress and the journal."""
