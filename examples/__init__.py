"""Programs to read and run: what a user of this project writes."""
