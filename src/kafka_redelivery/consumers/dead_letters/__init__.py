"""The dead-letter topics: counts their contents for metrics, and sweeps expired dead letters out of them."""
