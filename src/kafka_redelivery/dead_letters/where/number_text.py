"""Numbers as a cast reads them from a text. Patterns that Python, RE2 and Java read alike."""

from __future__ import annotations

from typing import Final

INTEGER_TEXT: Final = "[+-]?[0-9]{1,19}"
DOUBLE_TEXT: Final = "[+-]?(?:[0-9]{1,400}(?:[.][0-9]{0,400})?|[.][0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?"
"""With at most 400 digits on either side of the point, and three in the exponent."""
