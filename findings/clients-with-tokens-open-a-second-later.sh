#!/bin/sh
# A confluent-kafka client with oauth_cb takes a second longer to open, and hides why it got no token.
#
# Versions: confluent-kafka 2.16.0 (with librdkafka 2.16.0).
# Good guess: a client opens in a few milliseconds, whatever it logs in with, and connects when it is used. With
#   oauth_cb it may first wait for the function; if the function raises, so does the client, or it asks again later.
# Seen: the function is called at once and answers at once, but the client opens a second after that. If the function
#   raises, the constructor waits for ten seconds. Then it raises an error that does not name the function's exception:
#
#     Consumer: opens at once with a password; with oauth_cb it is called at once, and the client opens after 1 s
#     Consumer: without a token it raises after 10 s: OAuth token not set within 10 seconds timeout
#
#   Producer and AdminClient do the same.
# For a user: a process with five clients starts five seconds later. A process that opens a client while the token server
#   is away fails, while a client that is open waits. Open clients early and keep them, and let the function log its own
#   errors.
#
# Needs: python3 with venv, timeout. No broker is needed, and nothing is sent. It exits with 0 if all this is still so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

python3 -m venv venv
timeout 300 venv/bin/pip install -q --disable-pip-version-check confluent-kafka==2.16.0

timeout 200 venv/bin/python - > seen <<'PYTHON'
import time

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

SECRET = "the token server is away"
LOGIN = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "security.protocol": "SASL_PLAINTEXT"}
called = []


def token(config):
    called.append(time.monotonic())
    return "token", time.time() + 3600


def no_token(config):
    called.append(time.monotonic())
    raise RuntimeError(SECRET)


def opened(kind, **settings):
    """Return the seconds until a client is open, and until its function is called; the least of five."""
    found = []
    for _ in range(5):
        called.clear()
        began = time.monotonic()
        kind({**LOGIN, **settings})
        found.append((time.monotonic() - began, called[0] - began if called else 0))
    return min(each[0] for each in found), min(each[1] for each in found)


def when(seconds):
    for least, words in ((9.5, "after 10 s"), (0.9, "after 1 s"), (0.5, "after half a second")):
        if seconds >= least:
            return words
    return "at once"


for kind, more in ((Consumer, {"group.id": "g"}), (Producer, {}), (AdminClient, {})):
    name = kind.__name__
    password, _ = opened(kind, **more, **{"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"})
    with_token, asked = opened(kind, **more, **{"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token})
    print(f"{name}: opens {when(password)} with a password; with oauth_cb", end=" ")
    print(f"it is called {when(asked)}, and the client opens {when(with_token)}")
    began = time.monotonic()
    try:
        kind({**LOGIN, **more, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": no_token})
        print(f"{name}: without a token it opens {when(time.monotonic() - began)}")
    except (KafkaException, RuntimeError) as error:
        text = str(error)
        shown = SECRET if SECRET in text else text.partition('str="')[2].partition('"')[0]
        print(f"{name}: without a token it raises {when(time.monotonic() - began)}: {shown}")
PYTHON
cat seen

for name in Consumer Producer AdminClient; do
    echo "$name: opens at once with a password; with oauth_cb it is called at once, and the client opens after 1 s"
    echo "$name: without a token it raises after 10 s: OAuth token not set within 10 seconds timeout"
done > expected
cmp -s seen expected || { echo "CHANGED: clients open in another time, or say more"; exit 1; }
echo "still so"
