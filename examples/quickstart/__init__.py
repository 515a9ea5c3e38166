"""The smallest complete service: a configuration, a handler, its tests, and scripts to try it."""
