"""A broker on which clients log in with tokens, and a module beside a configuration that gives them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.scenarios.authenticated import AuthenticatedKafka, authenticated_kafka
from tests.scenarios.running import Group

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
LOGIN_MODULE = f"{_OAUTH}.OAuthBearerLoginModule"
_LISTENER = "listener.name.named.oauthbearer"
SECRET = "s3cr3t-0f-a-t0ken-server"  # noqa: S105 - of a test
_MODULE = f'''
import base64, json, os, time
from pathlib import Path

HERE = Path(__file__).parent

def token(config):
    """Return a token without a signature, which the broker of the test accepts, while the server is up."""
    with (HERE / "calls").open("a") as calls:
        calls.write(f"{{os.getpid()}}\\n")
    life = int((HERE / "life").read_text())
    if not life:
        raise ConnectionError("the token server is away: client_secret={SECRET}")
    now = int(time.time())
    parts = [{{"alg": "none"}}, {{"sub": "billing", "iat": now, "exp": now + life}}]
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
    return ".".join(encoded) + ".", now + life
'''


@contextmanager
def token_kafka() -> Iterator[AuthenticatedKafka]:
    """Start a broker on which clients log in with a token, every four seconds again."""
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "super.users": "User:ANONYMOUS;User:billing",
        f"{_LISTENER}.sasl.jaas.config": f'{LOGIN_MODULE} required unsecuredLoginStringClaim_sub="b";',
        f"{_LISTENER}.sasl.server.callback.handler.class": (
            f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
        ),
        f"{_LISTENER}.connections.max.reauth.ms": "4000",
    }
    with authenticated_kafka("SASL_PLAINTEXT", properties) as found:
        yield found


def with_tokens(group: Group, broker: AuthenticatedKafka) -> dict[str, str]:
    """Write the module into the folder of a group, with a token server that is up; return the client settings."""
    (group.folder / "shop_login.py").write_text(_MODULE)
    set_life(group, 600)
    return {
        "bootstrap.servers": broker.kafka["bootstrap.servers"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": "shop_login:token",
    }


def set_life(group: Group, seconds: int) -> None:
    """Let tokens live for a while; with 0 the token server is away."""
    (group.folder / "life").write_text(str(seconds))


def calls(group: Group) -> Counter[str]:
    """How often each process has asked for a token."""
    return Counter((group.folder / "calls").read_text().split())
