"""The root of what this package raises; each module defines its own kinds beside the code that raises them."""


class TransportError(Exception):
    """Root of everything this package raises."""
