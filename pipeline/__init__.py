"""What runs on Spark: the streaming query, and the jobs over the dead letters."""
