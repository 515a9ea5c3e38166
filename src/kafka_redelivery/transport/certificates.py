"""Files with certificates and keys, read before the Kafka client gets them.

The client does not always say which file it cannot use, and may end the process over a damaged one.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafka_redelivery.transport.client_config import ConfigValue

_AUTHORITIES: Final = ("ssl.ca.location", "https.ca.location", "ssl.crl.location")
_CERTIFICATE: Final = "ssl.certificate.location"
_KEY: Final = "ssl.key.location"
_KEYSTORE: Final = "ssl.keystore.location"
_FIND: Final = "probe"
"""A value of ``ssl.ca.location``: the client looks for the system's authorities."""

_SEQUENCE: Final = 0x30
_LONG: Final = 0x80


class UnusableFile(NamedTuple):
    """A file that the client cannot use."""

    setting: str
    problem: str
    fix: str


def unusable_files(settings: Mapping[str, ConfigValue]) -> Iterator[UnusableFile]:
    """Yield the files of a client's settings that it cannot use; none of a client without TLS."""
    if str(settings.get("security.protocol", "")).strip().lower() not in {"ssl", "sasl_ssl"}:
        return
    files = {name: str(settings[name]) for name in (*_AUTHORITIES, _CERTIFICATE, _KEY, _KEYSTORE) if name in settings}
    usable = set()
    for name, file in files.items():
        found = None if file == _FIND and name == "ssl.ca.location" else _problem(name, file)
        if found is None:
            usable.add(name)
        else:
            yield UnusableFile(name, f"names {file}, which {found[0]}", found[1])
    if {_CERTIFICATE, _KEY} <= usable:
        try:
            password = str(settings.get("ssl.key.password", ""))
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(files[_CERTIFICATE], files[_KEY], lambda: password)
        except OSError as error:  # also if a file has gone since it was read above
            problem = f"names {files[_KEY]}, which is not the key of {files[_CERTIFICATE]}, is damaged, or has another"
            fix = f"check {_CERTIFICATE}, {_KEY} and ssl.key.password"
            yield UnusableFile(_KEY, f"{problem} password: {_reason(error)}", fix)


def _problem(name: str, file: str) -> tuple[str, str] | None:
    """Return what is wrong with a file, and the fix."""
    path = Path(file)
    if path.is_dir() and name in _AUTHORITIES:
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}", "name a file that this process may read"
    if name == _KEYSTORE:
        return None if _is_whole(content) else ("is no PKCS#12 file, or is cut off", "name a whole file in this format")
    if name == _KEY:
        is_key = b"PRIVATE KEY-----" in content
        return None if is_key else ("has no private key", "name a file in PEM format that begins with -----BEGIN")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:
        return f"has no certificate, or a damaged one: {_reason(error)}", "name a file with whole ones in PEM format"
    return None


def _is_whole(content: bytes) -> bool:
    """Whether a file in BER or DER, as one in PKCS#12 is, has all the bytes that it says to have."""
    if len(content) < 4 or content[0] != _SEQUENCE:  # noqa: PLR2004 - of the emptiest one
        return False
    if content[1] == _LONG:  # it does not say it, and has two zeros at its end
        return content.endswith(b"\0\0")
    digits = max(0, content[1] - _LONG)
    length = int.from_bytes(content[2 : 2 + digits], "big") if digits else content[1]
    return len(content) >= 2 + digits + length


def _reason(error: OSError) -> str:
    return (getattr(error, "reason", "") or error.strerror or str(error)).replace("_", " ").lower()
