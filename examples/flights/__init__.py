"""Seat-miles of the flights that left New York in 2013: the demo on real data. Run it with ``./dev demo``."""
