"""Functions for ``kafka.oauth_cb``: logins at managed Kafkas with the identity of the machine, without a password.

Each takes the text of ``sasl.oauthbearer.config``, ``name=value`` with commas between, and returns a token and its end
(epoch seconds). They need the extra that they name.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Collection
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

__all__ = ["aws_msk_iam", "google_managed_kafka"]

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def aws_msk_iam(config: str) -> tuple[str, float]:
    """Return a token for Amazon MSK with IAM; needs the extra ``msk``.

    Credentials are found as every AWS SDK finds them: variables, profile, web identity, role of the container or
    machine. The token is signed here; only finding the credentials may need a request.

    Args:
        config: ``region`` (default: that of the environment or profile), and either ``profile``, or ``role_arn`` with
            ``session_name`` for a role to assume. A profile of AWS may itself name a role.

    Raises:
        ImportError: the extra is not installed.
        ValueError: ``config`` has other names or both a profile and a role, or there is no region.
        LookupError: there are no credentials.
        Exception: what the AWS SDK raises.
    """
    options = _options(config, {"region", "profile", "role_arn", "session_name"})
    if "profile" in options and "role_arn" in options:
        raise ValueError(
            "sasl.oauthbearer.config has profile and role_arn, and a role is assumed with the credentials of the "
            "environment; write role_arn and source_profile into a profile of the AWS configuration, and name only that"
        )
    signer = _imported("aws_msk_iam_sasl_signer.MSKAuthTokenProvider", "msk")
    botocore = import_module("botocore.session")
    session = botocore.Session(profile=options.get("profile"))
    # Only the SDKs for other languages read AWS_REGION, which pods have.
    region = options.get("region") or session.get_config_variable("region") or os.environ.get("AWS_REGION")
    if not region:
        raise ValueError("there is no AWS region; add region=NAME to sasl.oauthbearer.config, or set AWS_REGION")
    if role := options.get("role_arn"):
        name = options.get("session_name", "kafka-redelivery")
        token, ends_ms = signer.generate_auth_token_from_role_arn(region, role, name)
        return token, ends_ms / 1000
    credentials = session.get_credentials()
    if credentials is None:
        raise LookupError("there are no AWS credentials; give this process a role, a profile or AWS_ACCESS_KEY_ID")
    found = type("Found", (import_module("botocore.credentials").CredentialProvider,), {"load": lambda _: credentials})
    token, ends_ms = signer.generate_auth_token_from_credentials_provider(region, found())
    return token, ends_ms / 1000


def google_managed_kafka(config: str) -> tuple[str, float]:
    """Return a token for Google Cloud's Managed Service for Apache Kafka; needs the extra ``gcp``.

    Credentials are the application default credentials, of a service account.

    Args:
        config: must be empty.

    Raises:
        ImportError: the extra is not installed.
        ValueError: ``config`` is not empty, or the credentials are not those of a service account.
        Exception: what ``google.auth`` raises.

    Source: https://github.com/googleapis/managedkafka (the format of the token).
    """
    _options(config, ())
    google = _imported("google.auth", "gcp")
    credentials, _ = google.default(scopes=[_GOOGLE_SCOPE])
    credentials.refresh(import_module("google.auth.transport.requests").Request())
    account = getattr(credentials, "service_account_email", None)
    if not account:
        raise ValueError(
            f"{type(credentials).__name__} are no credentials of a service account; set "
            "GOOGLE_APPLICATION_CREDENTIALS, or impersonate one"
        )
    ends_s = credentials.expiry.replace(tzinfo=UTC).timestamp()
    begins_s = datetime.now(UTC).timestamp()  # noqa: TID251 - the time at which the token is made is a part of it
    claims = {"exp": ends_s, "iat": begins_s, "iss": "Google", "scope": "kafka", "sub": account}
    parts = (json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}), json.dumps(claims), credentials.token)
    return ".".join(base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") for each in parts), ends_s


def _options(config: str, known: Collection[str]) -> dict[str, str]:
    """Parse the text of ``sasl.oauthbearer.config``."""
    options = {}
    for pair in filter(None, (each.strip() for each in config.split(","))):
        name, separator, value = (each.strip() for each in pair.partition("="))
        if name not in known or not separator:
            names = ", ".join(sorted(known)) or "nothing"
            raise ValueError(f"sasl.oauthbearer.config has {name!r}; it takes {names}, as name=value,name=value")
        options[name] = value
    return options


def _imported(module: str, extra: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}: install kafka-redelivery[{extra}]") from error
