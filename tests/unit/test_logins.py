"""The ready logins, without a network: what is signed here, and what the cloud's own library answers."""

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from kafka_redelivery.logins import aws_msk_iam, google_managed_kafka
from kafka_redelivery.transport.tokens import NO_TOKEN, TokenSource

KEY, SECRET = "AKIDEXAMPLE", "secret-of-an-example"


def now_s() -> float:
    """Epoch seconds."""
    return datetime.now(UTC).timestamp()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A machine with a key in its environment, and no other credentials."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, f"{tmp_path}/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def part(token: str) -> bytes:
    """Decode base64 without padding."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


@pytest.mark.usefixtures("aws")
def test_a_token_for_msk_is_a_signed_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is valid for 15 minutes; the key is in it, its secret is not."""
    token, ends_s = aws_msk_iam(" region = eu-west-1 ")
    url = urlsplit(part(token).decode())
    query = parse_qs(url.query)
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith(f"{KEY}/")
    assert query["X-Amz-Credential"][0].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert SECRET not in url.query
    assert 890 <= ends_s - now_s() <= 910
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, f"{name[4:].lower()}-1")
        assert urlsplit(part(aws_msk_iam("")[0]).decode()).hostname == f"kafka.{name[4:].lower()}-1.amazonaws.com"
    assert TokenSource("msk", aws_msk_iam)()[0] != NO_TOKEN


@pytest.mark.usefixtures("aws")
def test_a_profile_of_msk(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """With its own key and region."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/config")
    with open(f"{tmp_path}/config", "w", encoding="utf-8") as file:  # noqa: PTH123 - a text
        file.write(
            f"[profile shop]\nregion = eu-south-1\naws_access_key_id = OTHER\naws_secret_access_key = {SECRET}\n"
        )
    url = urlsplit(part(aws_msk_iam("profile=shop")[0]).decode())
    assert url.hostname == "kafka.eu-south-1.amazonaws.com"
    assert parse_qs(url.query)["X-Amz-Credential"][0].startswith("OTHER/")


@pytest.mark.usefixtures("aws")
def test_a_role_of_msk(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS is asked for its credentials."""
    asked = []

    def assume(**question: str) -> object:
        asked.append(question)
        return {"Credentials": {"AccessKeyId": "ROLE", "SecretAccessKey": SECRET, "SessionToken": "session"}}

    monkeypatch.setattr("boto3.client", lambda *_, **__: SimpleNamespace(assume_role=assume))
    token, _ = aws_msk_iam("region=eu-west-1, role_arn=arn:aws:iam::1:role/kafka")
    assert parse_qs(urlsplit(part(token).decode()).query)["X-Amz-Credential"][0].startswith("ROLE/")
    assert asked == [{"RoleArn": "arn:aws:iam::1:role/kafka", "RoleSessionName": "kafka-redelivery"}]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("", "there is no AWS region; add region=NAME"),
        ("zone=x", "has 'zone'; it takes profile, region, role_arn, session_name"),
        ("region", "has 'region'"),
        ("region=x,profile=none", "none"),
        ("region=x,profile=a,role_arn=r", "write role_arn and source_profile into a profile of the AWS configuration"),
    ],
)
def test_what_is_missing_for_msk(config: str, words: str) -> None:
    """Is named, with the fix."""
    source = TokenSource("msk", aws_msk_iam, config)
    assert source()[0] == NO_TOKEN
    assert words in str(source.problem)


@pytest.mark.usefixtures("aws")
def test_no_credentials_for_msk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library itself would fail with an attribute of None."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(LookupError, match="there are no AWS credentials"):
        aws_msk_iam("region=eu-west-1")


class Account:
    """Credentials of a service account."""

    service_account_email = "billing@shop.iam.gserviceaccount.com"
    token = expiry = None

    def refresh(self, request: object) -> None:
        """Get a token as Google's library does: its end is UTC, without saying so."""
        assert type(request).__module__ == "google.auth.transport.requests"
        self.token = "ya29.access"  # noqa: S105 - of a test
        self.expiry = (datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=None)


def test_a_token_for_google_names_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the format of Google's own handler: header, claims and the access token, each in base64."""
    asked = []

    def default(**options: object) -> tuple[Account, str]:
        asked.append(options)
        return Account(), "shop"

    monkeypatch.setattr("google.auth.default", default)
    token, ends_s = google_managed_kafka("")
    header, claims, access = map(part, token.split("."))
    assert asked == [{"scopes": ["https://www.googleapis.com/auth/cloud-platform"]}]
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    said = json.loads(claims)
    assert said["sub"] == Account.service_account_email
    assert said["exp"] == ends_s
    assert said["iat"] <= now_s()
    assert access == b"ya29.access"
    assert 3500 <= ends_s - now_s() <= 3600
    assert TokenSource("gcp", google_managed_kafka)()[0] != NO_TOKEN


def test_credentials_of_a_person_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's Kafka knows service accounts."""
    person = SimpleNamespace(refresh=lambda _: None)
    monkeypatch.setattr("google.auth.default", lambda **_: (person, None))
    with pytest.raises(ValueError, match="no credentials of a service account; set GOOGLE_APPLICATION_CREDENTIALS"):
        google_managed_kafka("")
    with pytest.raises(ValueError, match="it takes nothing"):
        google_managed_kafka("region=x")


def test_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is named."""
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    with pytest.raises(ImportError, match=r"install kafka-redelivery\[msk\]"):
        aws_msk_iam("region=x")
