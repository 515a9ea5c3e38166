"""The views of the console, one module for each."""
