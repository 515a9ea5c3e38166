"""Who may change something in the console, and what another site may not."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from kafka_redelivery.cli.console.access import LocalUser, Role, TokenLogin, Tokens, TrustedProxy, User
from kafka_redelivery.cli.console.live import Problem
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.cli.console.server import application
from tests.unit.cli.console.consoles import ADDRESS, client, console_of, guarded, routes

_TOKEN = "a-token-that-is-long-enough"  # noqa: S105 - of a test
_PROBLEM = "no Kafka broker answers at kafka.internal:9093"
_OPEN = {"/login", "/logout"}
"""These have tests of their own."""


def _csrf(authentication: LocalUser) -> str:
    visitor = authentication.visitor(None)  # type: ignore[arg-type] # it does not look at the request
    assert visitor is not None
    return visitor.csrf


def test_nothing_is_changed_without_the_token_of_the_page(tmp_path: Path) -> None:
    """Each address that takes a form refuses one without it, and one with that of another user."""
    app = guarded(console_of(tmp_path))
    addresses = [each for each in routes(app, "POST") if each not in _OPEN]
    assert len(addresses) >= 10
    for address in addresses:
        for data in ({}, {"csrf": "x"}, {"csrf": "é"}):
            answer = client(app).post(address, data=data)
            assert answer.status_code == 403, address
            assert "out of date" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_site_changes_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    """Even with the token."""
    user = LocalUser(User("ann", Role.ADMIN))
    app = guarded(console_of(tmp_path, user))
    for address in routes(app, "POST"):
        answer = client(app).post(address, data={"csrf": _csrf(user)}, headers=headers)
        assert (answer.status_code, answer.text) == (403, "this request comes from another site"), address


@pytest.mark.parametrize("kind", ["image", "empty", "iframe", "script"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_shows_nothing_of_it_and_makes_it_read_nothing(tmp_path: Path, site: str, kind: str) -> None:
    """Its pages may only lead a person here, who sees where."""
    app = guarded(console_of(tmp_path))
    for address in routes(app, "GET"):
        answer = client(app).get(address, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Dest": kind})
        assert (answer.status_code, answer.text) == (403, "this request comes from another site"), address


def test_a_viewer_changes_nothing_and_an_operator_does_not_purge(tmp_path: Path) -> None:
    """The role is asked for at each address that takes a form."""
    for role, refused in ((Role.VIEWER, None), (Role.OPERATOR, "/purge")):
        user = LocalUser(User("ann", role))
        app = guarded(console_of(tmp_path, user))
        for address in (each for each in routes(app, "POST") if each not in _OPEN):
            if refused in (None, address):
                answer = client(app).post(address, data={"csrf": _csrf(user)}, headers={"Origin": ADDRESS})
                assert answer.status_code == 403, address
                assert "needs the role" in answer.text


def test_a_read_only_console_changes_nothing(tmp_path: Path) -> None:
    """Not even for an admin; and it shows no button that would."""
    user = LocalUser(User("ann", Role.ADMIN))
    app = guarded(console_of(tmp_path, user, ConsoleOptions(read_only=True)))
    for address in (each for each in routes(app, "POST") if each not in _OPEN):
        answer = client(app).post(address, data={"csrf": _csrf(user)})
        assert answer.status_code == 403, address
        assert "read-only" in answer.text
    for address in ("/redrive", "/discard", "/purge", "/export", "/letters/DLQ.orders-0@1/edit"):
        assert client(app).get(address).status_code == 403
    assert 'href="/pause"' not in client(app).get("/topology").text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "10.0.0.1:8080", "["]
)
def test_a_name_that_leads_here_reads_nothing(tmp_path: Path, host: str) -> None:
    """A site whose name is made to lead to loopback is not answered."""
    answer = client(guarded(console_of(tmp_path))).get("/", headers={"Host": host})
    assert answer.status_code == 421
    assert "billing" not in answer.text


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:18080", "[::1]:8080"])
def test_its_own_names(tmp_path: Path, host: str) -> None:
    """Loopback has three."""
    assert client(guarded(console_of(tmp_path))).get("/", headers={"Host": host}).status_code == 200


def _login(tmp_path: Path) -> TokenLogin:
    file = tmp_path / "tokens"
    file.write_text(f"ann operator {_TOKEN}\n", encoding="utf-8")
    file.chmod(0o600)
    return TokenLogin(Tokens.read(file))


def test_who_is_not_known_sees_nothing(tmp_path: Path) -> None:
    """Each address leads to the login, without a look at what was asked for."""
    app = guarded(console_of(tmp_path, _login(tmp_path)))
    for address in routes(app, "GET"):
        if not address.startswith(("/login", "/assets", "/healthz", "/favicon")):
            answer = client(app).get(address)
            assert answer.status_code == 303, address
            assert answer.headers["Location"].startswith("/login?next=%2F")
    for address in (each for each in routes(app, "POST") if each != "/login"):
        assert client(app).post(address).status_code == 401, address
    assert client(app).get("/letters", headers={"HX-Request": "true"}).status_code == 401
    assert "billing" in client(app).get("/login").text


def test_a_login_and_its_end(tmp_path: Path) -> None:
    """The cookie is out of reach of scripts and other sites; after the end it is nothing."""
    app = guarded(console_of(tmp_path, _login(tmp_path)))
    browser = client(app)
    wrong = browser.post("/login", data={"token": "another", "next": "/jobs"})
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    right = browser.post("/login", data={"token": _TOKEN, "next": "/jobs?x=1"})
    assert (right.status_code, right.headers["Location"]) == (303, "/jobs?x=1")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = browser.get("/topology")
    assert page.status_code == 200
    assert "ann" in page.text
    csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
    assert browser.post("/logout", data={"csrf": "x"}).status_code == 403
    assert browser.get("/topology").status_code == 200
    assert browser.post("/logout", data={"csrf": csrf}).status_code == 303
    assert client(app).get("/", headers={"Cookie": cookie.partition(";")[0]}).status_code == 303


@pytest.mark.parametrize(
    "address", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "", "/a\nb", "//["]
)
def test_a_login_leads_to_no_other_site(tmp_path: Path, address: str) -> None:
    """Whatever the link to it says."""
    browser = client(guarded(console_of(tmp_path, _login(tmp_path))))
    answer = browser.post("/login", data={"token": _TOKEN, "next": address})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")


def test_a_link_from_another_site_works(tmp_path: Path) -> None:
    """The browser leaves the cookie out then, so a page of our own leads to the same address again, once."""
    app = guarded(console_of(tmp_path, _login(tmp_path)))
    answer = client(app).get("/letters?origin=%22%3E%3Cb%3E", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'url=/letters?origin=%22%3E%3Cb%3E&amp;retried=1"' in answer.text
    again = client(app).get("/letters?retried=1", headers={"Sec-Fetch-Site": "cross-site"})
    assert again.status_code == 303


def test_only_the_proxy_says_who_asks(tmp_path: Path) -> None:
    """The same headers from another peer, twice, or empty, are nothing."""
    proxy = TrustedProxy([ip_network("10.1.0.0/16")], "X-User", "X-Role")
    app = guarded(console_of(tmp_path, proxy))
    known = {"X-User": "ann", "X-Role": "operator"}
    page = client(app, "10.1.2.3").get("/topology", headers=known)
    assert page.status_code == 200
    assert 'href="/pause"' in page.text
    assert client(app, "10.2.0.1").get("/", headers=known).status_code == 403
    for headers in ([("X-User", "ann"), ("X-User", "eve")], [("X-User", " ")], []):
        assert client(app, "10.1.2.3").get("/", headers=headers).status_code == 403
    for role in ("king", "", "viewer"):
        page = client(app, "10.1.2.3").get("/topology", headers={"X-User": "ann", "X-Role": role})
        assert 'href="/pause"' not in page.text


def test_without_a_role_header_everyone_is_a_viewer(tmp_path: Path) -> None:
    """A role that is not asked for is not taken from any header."""
    proxy = TrustedProxy([ip_network("10.1.2.3")], "X-User", None)
    page = client(guarded(console_of(tmp_path, proxy)), "10.1.2.3").get(
        "/topology", headers={"X-User": "ann", "X-Role": "admin"}
    )
    assert "viewer" in page.text
    assert 'href="/pause"' not in page.text


@pytest.mark.parametrize(
    "query",
    [
        {"where": "value = 'x'"},
        {"where": "headers['a'] = 'x'"},
        {"where": "attempts > 1 or lower(key) like 'x%'"},
        {"where": "length(value) > 3"},
        {"key": "x"},
        {"header": "a=x"},
    ],
)
def test_hidden_payloads_cannot_be_asked_for(tmp_path: Path, query: dict[str, str]) -> None:
    """Wherever letters are selected: an answer to such a question would tell what they contain."""
    user = LocalUser(User("ann", Role.ADMIN))
    browser = client(guarded(console_of(tmp_path, user, ConsoleOptions(hide_payloads=True))))
    for path in ("/failures", "/letters", "/redrive", "/discard"):
        assert "payloads are hidden" in browser.get(path, params=query).text, path
    for path in ("/redrive", "/discard"):
        answer = browser.post(path, data={**query, "csrf": _csrf(user)})
        assert answer.status_code == 400
        assert "payloads are hidden" in answer.text


def test_hidden_payloads_are_not_shown(tmp_path: Path) -> None:
    """No bytes, no comparison, no edit and no export; and a search does not look at keys."""
    user = LocalUser(User("ann", Role.ADMIN))
    browser = client(guarded(console_of(tmp_path, user, ConsoleOptions(hide_payloads=True))))
    for path in ("/export", *(f"/letters/DLQ.orders-0@1/{each}" for each in ("raw", "compare", "edit"))):
        assert browser.get(path).status_code == 403, path
    for path in ("/export", "/letters/DLQ.orders-0@1/edit"):
        assert browser.post(path, data={"csrf": _csrf(user)}).status_code == 403, path
    assert "key" not in browser.get("/search", params={"q": "x"}).headers["Location"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_session_behind_a_proxy_with_tls_is_never_sent_unencrypted(tmp_path: Path, scheme: str) -> None:
    """The console itself is asked over http in both cases."""
    browser = client(guarded(console_of(tmp_path, _login(tmp_path))))
    origin = ADDRESS.replace("http", scheme)
    answer = browser.post("/login", data={"token": _TOKEN, "next": "/"}, headers={"Origin": origin})
    assert ("secure" in answer.headers["Set-Cookie"].lower()) is (scheme == "https")


def test_strangers_do_not_see_how_kafka_is(tmp_path: Path) -> None:
    """The page with the login has neither the banner nor the addresses of brokers that are in it."""
    login = _login(tmp_path)
    console = console_of(tmp_path, login)
    console.flow.problem = Problem(0, _PROBLEM)
    browser = client(guarded(console))
    for path in ("/login", "/login/none"):
        assert "kafka.internal" not in browser.get(path).text, path
    browser.post("/login", data={"token": _TOKEN, "next": "/"})
    assert "kafka.internal" in browser.get("/").text


def test_a_damaged_name_is_refused_where_any_is_right(tmp_path: Path) -> None:
    """Without it there would be no address to lead to."""
    app = application(console_of(tmp_path, _login(tmp_path)), None)
    for path in ("/", "/login", "/letters"):
        assert client(app).get(path, headers={"Host": "["}).status_code == 421, path
        assert client(app).get(path, headers={"Host": "console.example"}).status_code in {200, 303}, path
