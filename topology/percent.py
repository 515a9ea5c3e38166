"""Percent-encoded queries as Java reads them."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"(?:%[0-9a-fA-F]{2})+")


def decoded(text: str) -> str:
    """``+`` is a blank, ``%41`` a byte of UTF-8; what is no escape stays as it is."""
    return _ESCAPES.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), text.replace("+", " ")
    )


def decoded_query(query: str) -> dict[str, str | None]:
    """The options of ``a=1&b=2``, the last of each name; without ``=`` a value is ``None``.

    Source: ``org.apache.activemq.util.URISupport.parseQuery``.
    """
    options: dict[str, str | None] = {}
    relevant = query.rpartition("?")[2].rstrip("&")  # as Java splits: nothing at the end is nothing
    for parameter in relevant.split("&") if relevant else ():
        name, equals, value = parameter.partition("=")
        if equals:
            options[decoded(name)] = decoded(value)
        else:
            options[name] = None
    return options
