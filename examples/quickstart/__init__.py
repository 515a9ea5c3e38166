"""The smallest complete service: a configuration, a function, its tests, and what is needed to see it work."""
