"""Jobs that run on Spark: the streaming query, and archive, report and audit."""
