"""A transformation of DataFrames with retries and dead letters."""
