"""The smallest complete service: a configuration, a function, and its tests."""
