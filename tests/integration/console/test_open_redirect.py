"""A link from another site never leads to a third one."""

from pathlib import Path

import pytest

from tests.integration.console.test_protection import _login
from tests.unit.cli.console.consoles import ADDRESS, client, console_of, guarded


@pytest.mark.parametrize("path", ["//evil.example/login", "///evil.example/", "/\\evil.example", "//evil.example"])
def test_a_link_from_another_site_leads_to_no_third_one(tmp_path: Path, path: str) -> None:
    """The page that leads to the same address must not take a path with two slashes for a name."""
    app = guarded(console_of(tmp_path, _login(tmp_path)))
    answer = client(app).get(f"{ADDRESS}{path}", headers={"Sec-Fetch-Site": "cross-site"})
    target = answer.text.partition("url=")[2]
    assert target.startswith(("/evil.example", "/%5Cevil.example")), answer.text
