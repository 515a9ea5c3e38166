"""What runs in a Spark task: the records of one partition are handled, decided and written in transactions."""
