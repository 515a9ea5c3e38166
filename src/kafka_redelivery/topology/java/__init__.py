"""Java's arithmetic, text conversions and regular expressions, as far as the brokers' behaviour depends on them."""
