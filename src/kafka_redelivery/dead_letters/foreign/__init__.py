"""Dead letters that other systems have written, read by their headers."""
