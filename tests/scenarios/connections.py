"""A broker with a listener for each way to connect, and a token server."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.authenticated import ADDRESS
from tests.scenarios.cluster import Cluster
from tests.scenarios.scraping import free_port
from tests.scenarios.secured import certificate

Kafka = dict[str, str | int]

REAUTHENTICATE_MS = 4000
"""How long a connection with a password lasts before the client has to log in again on it."""

_LOGIN = "org.apache.kafka.common.security"
_CLIENT_ID = "billing"
_CLIENT_SECRET = "a secret of a test"  # noqa: S105


class Connections(NamedTuple):
    """The client settings of each way to connect."""

    cluster: Cluster
    mutual: Kafka
    """TLS with a certificate of the client."""

    scram: Kafka
    """TLS with a password; without the user."""

    token: Kafka
    """A token from :class:`TokenServer`."""


@contextmanager
def connections(folder: Path) -> Iterator[Connections]:
    """Start the broker and the token server.

    Args:
        folder: gets keys and certificates.
    """
    for name in ("broker", "client"):
        (folder / name).mkdir()
    authority, identity = certificate(folder / "broker")
    client_authority, client = certificate(folder / "client")
    plain, controller, mutual, scram, token = (f"{ADDRESS}:{free_port()}" for _ in range(5))
    tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(identity)}
    named = {
        "mutual": {
            **tls,
            "ssl.client.auth": "required",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(client_authority),
        },
        "scram": {
            **tls,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            "scram-sha-512.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
        },
        "token": {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required"
            ' unsecuredLoginStringClaim_sub="broker";',
            "oauthbearer.sasl.server.callback.handler.class": (
                f"{_LOGIN}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
            ),
        },
    }
    properties = {
        "listeners": f"CLIENT://{plain},CONTROLLER://{controller},MUTUAL://{mutual},SCRAM://{scram},TOKEN://{token}",
        "advertised.listeners": f"CLIENT://{plain},MUTUAL://{mutual},SCRAM://{scram},TOKEN://{token}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": (
            "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,MUTUAL:SSL,SCRAM:SASL_SSL,TOKEN:SASL_PLAINTEXT"
        ),
        **{f"listener.name.{name}.{key}": value for name, each in named.items() for key, value in each.items()},
    }
    with EmbeddedKafka(port=int(plain.rpartition(":")[2]), properties=properties) as broker, token_server() as url:
        yield Connections(
            Cluster(broker.bootstrap_servers),
            {
                "bootstrap.servers": mutual,
                "security.protocol": "SSL",
                "ssl.ca.location": str(authority),
                "ssl.certificate.location": str(client),
                "ssl.key.location": str(client),
            },
            {
                "bootstrap.servers": scram,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(authority),
                "sasl.mechanism": "SCRAM-SHA-512",
            },
            {
                "bootstrap.servers": token,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": _CLIENT_ID,
                "sasl.oauthbearer.client.secret": _CLIENT_SECRET,
                "sasl.oauthbearer.token.endpoint.url": url,
            },
        )


@contextmanager
def token_server() -> Iterator[str]:
    """Serve tokens for client credentials; yields the address of the token endpoint."""
    server = ThreadingHTTPServer((ADDRESS, 0), _Tokens)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{ADDRESS}:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Tokens(BaseHTTPRequestHandler):
    """Gives a token without a signature, which the broker of a test accepts, to the one client that it knows."""

    def do_POST(self) -> None:
        """Answer a request for a token."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        known = base64.b64encode(f"{_CLIENT_ID}:{_CLIENT_SECRET}".encode()).decode()
        if self.headers.get("Authorization") == f"Basic {known}":
            now_s = int(time.time())
            claims = {"sub": _CLIENT_ID, "iat": now_s, "exp": now_s + 600}
            token = f"{_part({'alg': 'none'})}.{_part(claims)}."
            self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 600})
        else:
            self._answer(401, {"error": "invalid_client", "error_description": "unknown client"})

    def _answer(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Stay silent."""


def _part(document: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")
