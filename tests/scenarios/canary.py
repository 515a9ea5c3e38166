"""A configuration in which every kind of secret is one word, so that a test can look for it."""

from typing import Any, Final

CANARY: Final = "canary7741"

SECRETS: Final[dict[str, Any]] = {
    "sasl.password": CANARY,
    "producer.sasl.password": CANARY,
    "ssl.key.password": CANARY,
    "ssl.keystore.password": CANARY,
    "ssl.key.pem": f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
    "sasl.oauthbearer.client.secret": CANARY,
    "sasl.oauthbearer.config": f"secret={CANARY}",
    "sasl.oauthbearer.extensions": f"key={CANARY}",
    "spark.ssl.keystore.key": CANARY,
    "spark.sasl.jaas.config": f'required password="{CANARY}";',
}
"""Under ``kafka``. A client does not use them while ``security.protocol`` is ``PLAINTEXT``."""

REGISTRY: Final[dict[str, str]] = {"url": f"http://user:{CANARY}@127.0.0.1:1", "max.retries": "0"}
"""A schema registry that is down."""

SPARK: Final[dict[str, str]] = {
    "spark.hadoop.fs.s3a.secret.key": CANARY,
    "spark.hadoop.fs.azure.account.key.here": CANARY,
    "spark.ssl.keyPassword": CANARY,
}
"""Under ``pipeline.spark``."""
