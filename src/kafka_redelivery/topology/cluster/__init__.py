"""The topics and offsets that a configuration needs, and the checks of a cluster against them."""
