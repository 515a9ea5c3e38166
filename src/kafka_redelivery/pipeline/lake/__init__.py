"""Tables in the lake: their files, their format, and the log of Spark's file sink."""
