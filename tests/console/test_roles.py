"""What each role may do: a viewer reads, an operator acts, and a forged form is refused."""

import re
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.console.browsing import Visit, visiting
from tests.console.serving import TOKENS, Served, serving, token_file
from tests.scenarios.cluster import Cluster
from tests.scenarios.commands import redelivery
from tests.scenarios.redriving import dead_letter, dlq_json
from tests.scenarios.running import Group
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LETTERS = 6

_ACTIONS = re.compile("Redrive|Discard|Export|Edit|Purge|Pause|Resume|Cancel")
_PAGES = ("/", "/failures", "/letters", "/jobs", "/waiting", "/topology", "/audit")


@pytest.fixture(scope="module")
def group(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """A group with a few dead letters and no processes."""
    found = Group(Cluster(kafka.bootstrap_servers), "roles-of-the-console", tmp_path_factory.mktemp("roles"))
    found.prepare()
    dead_letter(found, range(LETTERS))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def console(browser: Browser, group: Group, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A console with a viewer, an operator and an admin."""
    with serving(group, f"--tokens={token_file(tmp_path_factory.mktemp('tokens'))}") as found:
        with visiting(browser, found.address) as visit:
            visit.log_in(TOKENS["vera"])
            visit.await_data()
        yield found


@pytest.fixture
def letter(group: Group) -> str:
    """The id of a letter."""
    return f"{group.dead_letters}-0@0"


@pytest.fixture
def unchanged(group: Group) -> Iterator[None]:
    """Assert that a test has written nothing: no letter again, no job, no pause, no note."""
    topics = (group.ready, *(f"{group.name}.{each}" for each in ("control", "dlq.actions", "dlq.jobs")))
    group.cluster.wait_for_markers(*topics)  # of what an earlier test has written
    before = group.cluster.ends(*topics)
    yield
    assert group.cluster.ends(*topics) == before


def _csrf(page: Page) -> str:
    """Return the text that the forms of a user must have."""
    found = re.search(r'"X-CSRF-Token":"([^"]+)"', page.locator("body").get_attribute("hx-headers") or "")
    assert found
    return found[1]


def _post(visit: Visit, path: str, form: Mapping[str, str], **headers: str) -> int:
    """Send a form as the user of the browser, and return the status."""
    address = visit.address + path
    named = {"Origin": visit.address} | {name.replace("_", "-"): value for name, value in headers.items()}
    return visit.context.request.post(address, form={**form}, headers=named, max_redirects=0).status


def test_a_token_is_needed(browser: Browser, console: Served) -> None:
    """Every page leads to the login, a wrong token is refused, and a right one leads to where one wanted to go."""
    with visiting(browser, console.address) as visit:
        page = visit.open("/letters?exception=Connection*")
        expect(page).to_have_url(f"{console.address}/login?next={quote('/letters?exception=Connection*', safe='')}")
        visit.expected.append("401")
        page.get_by_label("Your token").fill("guessed-0123456789")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("No user has this token")
        page.get_by_label("Your token").fill(TOKENS["vera"])
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{console.address}/letters?exception=Connection*")
        expect(page.locator(".user")).to_have_text("vera viewer")
        [cookie] = visit.context.cookies()
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"{console.address}/login")
        for path in (*_PAGES, "/events"):
            answer = visit.context.request.get(console.address + path, max_redirects=0)
            assert answer.status in {303, 401}, path


@pytest.mark.parametrize(
    "target",
    [
        "//example.org/",
        "https://example.org/",
        "/\\example.org",
        "javascript:alert(1)",
    ],
)
def test_a_login_leads_to_no_other_site(browser: Browser, console: Served, target: str) -> None:
    """Whatever a link to the login names, one ends in the console."""
    with visiting(browser, console.address) as visit:
        page = visit.open(f"/login?next={quote(target, safe='')}")
        page.get_by_label("Your token").fill(TOKENS["vera"])
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{console.address}/")


@pytest.mark.usefixtures("unchanged")
def test_a_viewer_reads_and_cannot_act(browser: Browser, console: Served, letter: str) -> None:
    """No page offers an action, and the forms are refused if they are sent all the same."""
    with visiting(browser, console.address) as visit:
        page = visit.log_in(TOKENS["vera"])
        csrf = _csrf(page)
        for path in (*_PAGES, f"/letters/{letter}"):
            page.goto(console.address + path)
            expect(page.locator("main h1")).to_be_visible()
            main = page.locator("main")
            offered = [*main.get_by_role("button").all_inner_texts(), *main.locator("a.button").all_inner_texts()]
            assert [each for each in offered if _ACTIONS.search(each)] == [], path
        page.keyboard.press("r")
        expect(page).to_have_url(f"{console.address}/letters/{letter}")
        for path, form in _actions(letter):
            assert _post(visit, path, {"csrf": csrf, **form}) == 403, path
        for path in ("/redrive", "/discard", "/export", "/purge", f"/letters/{letter}/edit"):
            assert visit.context.request.get(console.address + path).status == 403, path


def _actions(letter: str) -> list[tuple[str, dict[str, str]]]:
    """Return every form that changes something."""
    number = {"id": letter, "expected": "1", "number": "1"}
    return [
        ("/redrive", number),
        ("/discard", number),
        ("/export", {"id": letter}),
        ("/purge", {"number": "1"}),
        (f"/letters/{letter}/edit", {"text": "{}", "send": "yes"}),
        ("/jobs/0123456789/cancel", {}),
        ("/jobs/0123456789/resume", {}),
        ("/tasks/0123456789abcdef", {"answer": "yes"}),
        ("/topology/refresh", {}),
        ("/pauses", {"target": "group"}),
        ("/pauses/resume", {"scope": "group"}),
    ]


@pytest.mark.usefixtures("unchanged")
def test_a_forged_form_is_refused(browser: Browser, console: Served, letter: str) -> None:
    """Without the user's text, with another one's, or from another site, nothing happens."""
    with visiting(browser, console.address) as other:
        stolen = _csrf(other.log_in(TOKENS["ada"]))
    with visiting(browser, console.address) as visit:
        csrf = _csrf(visit.log_in(TOKENS["otto"]))
        for path, form in _actions(letter):
            assert _post(visit, path, form) == 403, path
            assert _post(visit, path, {"csrf": stolen, **form}) == 403, path
            assert _post(visit, path, {"csrf": csrf, **form}, Origin="https://example.org") == 403, path
            assert _post(visit, path, {"csrf": csrf, **form}, Origin="null") == 403, path
            assert _post(visit, path, {"csrf": csrf, **form}, Sec_Fetch_Site="cross-site") == 403, path
        assert _post(visit, "/logout", {}) == 403


class _OtherSite(BaseHTTPRequestHandler):
    """A page that sends a form to the console as soon as it is opened."""

    target = ""

    def do_GET(self) -> None:
        """Serve the page."""
        body = (
            f'<form id="f" method="post" action="{self.target}/pauses"><input name="target" value="group"></form>'
            "<script>document.getElementById('f').submit()</script>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def other_site(console: Served) -> Iterator[str]:
    """Another site on this machine, whose cookies and those of the console are the same to a browser."""
    handler = type("_Attack", (_OtherSite,), {"target": console.address})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.usefixtures("unchanged")
def test_a_form_of_another_site_is_refused(browser: Browser, console: Served, other_site: str) -> None:
    """The browser sends the cookie with it, because only the port differs."""
    with visiting(browser, console.address) as visit:
        visit.log_in(TOKENS["otto"])
        visit.expected += [other_site, "403"]
        page = visit.page()
        page.goto(other_site)
        page.wait_for_url(f"{console.address}/pauses")
        assert "another site" in page.locator("body").inner_text()


def test_an_operator_acts_in_their_own_name(browser: Browser, console: Served, group: Group, letter: str) -> None:
    """A redrive and a discard are jobs of the operator; only an admin may purge."""
    with visiting(browser, console.address) as visit:
        page = visit.log_in(TOKENS["otto"])
        csrf = _csrf(page)
        assert _post(visit, "/purge", {"csrf": csrf, "number": "1"}) == 403
        page.goto(f"{console.address}/letters/{letter}")
        page.get_by_role("link", name="Redrive").first.click()
        page.get_by_role("button", name="Redrive 1 letter").click()
        page.wait_for_url(re.compile("/jobs/"))
        expect(page.locator("#job")).to_contain_text("1 of 1 letters")
        page.goto(f"{console.address}/discard?id={group.dead_letters}-1@1")
        page.get_by_role("button", name="Discard 1 letter").click()  # the field that asks for the number is required
        expect(page).to_have_url(re.compile("/discard"))
        page.get_by_label("Enter the number of letters to confirm").fill("1")
        page.get_by_role("button", name="Discard 1 letter").click()
        expect(page.locator("#job")).to_contain_text("1 set aside")
        page.goto(f"{console.address}/audit?by=otto")
        expect(page.locator("#list tbody tr")).to_have_count(2)
    with visiting(browser, console.address) as visit:
        page = visit.log_in(TOKENS["ada"])
        page.goto(f"{console.address}/purge")
        expect(page.get_by_role("heading", name="Purge letters that are done")).to_be_visible()
    jobs = dlq_json(group, "jobs")["jobs"]
    assert sum("otto (console" in each["by"] for each in jobs) == 2, jobs
    # Other tests assert that nothing is written any more.
    until(lambda: all(each["state"] == "done" for each in dlq_json(group, "jobs")["jobs"]), "both jobs have ended")


@pytest.mark.long
@pytest.mark.usefixtures("unchanged")
def test_read_only(browser: Browser, group: Group, letter: str) -> None:
    """Not even the user who runs the console changes anything, and each page says so."""
    with serving(group, "--read-only", name="read-only") as console, visiting(browser, console.address) as visit:
        visit.await_data()
        page = visit.open()
        csrf = _csrf(page)
        expect(page.locator(".chip", has_text="read-only")).to_be_visible()
        for path in (*_PAGES, f"/letters/{letter}"):
            page.goto(console.address + path)
            assert not page.locator("main form[method=post]").count(), path
        for path, form in _actions(letter):
            assert _post(visit, path, {"csrf": csrf, **form}) == 403, path


def test_hidden_payloads(browser: Browser, group: Group, letter: str) -> None:
    """Nothing of a letter's key, value and headers is in a page, and no question can find it out."""
    with serving(group, "--hide-payloads", name="hidden") as console, visiting(browser, console.address) as visit:
        visit.await_data()
        page = visit.open("/letters")
        expect(page.locator("#list tbody tr")).not_to_have_count(0)
        visit.expected += ["400", "403"]
        for path in (*_PAGES, f"/letters/{letter}", f"/letters/{letter}/story"):
            page.goto(console.address + path)
            assert "traceparent" not in page.content(), path
            assert '"do"' not in page.content(), path
            assert "&#34;do&#34;" not in page.content(), path
        for query in ("key=k0", "header=traceparent=00-0", "where=key+%3D+%27k0%27", "where=value+is+not+null"):
            page.goto(f"{console.address}/letters?{query}")
            expect(page.get_by_role("alert").first).to_contain_text("payloads are hidden here")
            assert not page.locator("#list tbody tr").count()
        for path in ("raw", "edit", f"compare?with={group.dead_letters}-1@0"):
            assert visit.context.request.get(f"{console.address}/letters/{letter}/{path}").status == 403, path
        assert visit.context.request.get(f"{console.address}/export").status == 403


def test_strangers_are_not_let_in(group: Group, tmp_path: Path) -> None:
    """On an address that others reach a console does not start without tokens, nor with a file that others read."""
    refused = redelivery("console", "--host=0.0.0.0", "--port=0", file=group.file)
    assert refused.code == 2, refused
    assert "--tokens" in refused.err
    file = token_file(tmp_path)
    file.chmod(0o644)
    refused = redelivery("console", "--host=0.0.0.0", "--port=0", f"--tokens={file}", file=group.file)
    assert refused.code != 0
    assert "chmod o-r" in refused.err


def test_a_name_that_leads_here_is_refused(browser: Browser, group: Group) -> None:
    """A site whose name is made to lead to this machine reads nothing of a console on loopback."""
    with serving(group, name="loopback") as console, visiting(browser, console.address) as visit:
        answer = visit.context.request.get(f"{console.address}/letters", headers={"Host": "rebound.example.org"})
        assert answer.status == 421
        assert "DLQ" not in answer.text()
        until(lambda: visit.context.request.get(f"{console.address}/healthz").ok, "the console answers to its own name")
