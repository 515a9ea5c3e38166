"""The language of `--where`: typed columns, the parsed expression, and its meaning in SQL."""
