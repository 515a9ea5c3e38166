"""What people see of a URL, and which URLs have a secret."""

import pytest

from kafka_redelivery.topology.urls import has_secret, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://registry:8081", "http://registry:8081"),
        ("http://u:p@registry:8081", "http://********@registry:8081"),
        ("http://u:a@b,/c@registry", "http://********@registry"),
        ("u:p@registry", "********@registry"),
        ("https://x/y?token=p&z=1", "https://x/y?********"),
        ("no answer from http://u:p@x/y?z: refused", "no answer from http://********@x/y?******** refused"),
        ("abfss://files@account.dfs.core.windows.net/x", "abfss://files@account.dfs.core.windows.net/x"),
        ("abfss://files:p@account/x", "abfss://********@account/x"),
    ],
)
def test_users_passwords_and_queries_are_hidden(url: str, shown: str) -> None:
    """The container of an address in Azure is no user."""
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "https://u:p@grafana",
        "https://u:a/b@grafana",
        "HTTPS://token@grafana",
        "https://grafana/d?auth_token=p",
        "https://grafana/d?orgId=1&apiKey=p",
        "s3a://key:secret@bucket/x",
        "wasbs://files@account/x?sv=1&sig=p",
    ],
)
def test_urls_with_a_secret(url: str) -> None:
    """A password, or something like a token."""
    assert has_secret(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://grafana:3000/d/a@b?orgId=1",
        "http://[::1]:3000/",
        "https://grafana",
        "https://grafana/d/x?var-topic_key=orders&var-token=x",
        "hdfs://user@namenode:8020/x",
        "hdfs://a:8020,b:8020/x",
        "abfss://files@account.dfs.core.windows.net/x",
        "s3a://bucket/a:b@c",
        "checkpoint/a:b@c",
        "file:///tmp/x",
    ],
)
def test_urls_without_a_secret(url: str) -> None:
    """Neither a port nor a character of a path is one."""
    assert not has_secret(url)
