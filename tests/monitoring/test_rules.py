"""Alert and recording rules are valid and tested, and each alert has a runbook page."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES = sorted(FOLDER.glob("rules/*.yml"))
TESTS = sorted(FOLDER.glob("tests/*.yml"))
PAGES = ROOT / "docs" / "runbooks"


def rules(kind: str) -> list[dict[str, Any]]:
    """All ``alert`` or ``record`` rules."""
    documents = [yaml.safe_load(path.read_text()) for path in RULES]
    return [rule for each in documents for group in each["groups"] for rule in group["rules"] if kind in rule]


ALERTS = [rule["alert"] for rule in rules("alert")]
RECORDS = [rule["record"] for rule in rules("record")]


@pytest.fixture
def promtool() -> str:
    """The tool that comes with Prometheus."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is missing: install Prometheus (Debian: apt-get install prometheus)")
    return found


def run(*command: str) -> None:
    """Run a command; it must succeed."""
    ended = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_configuration_is_valid_with_all_its_rules(promtool: str) -> None:
    """``promtool`` accepts the configuration of the Compose file."""
    run(promtool, "check", "config", "prometheus.yml")


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.stem)
def test_rules_do_what_their_tests_say(promtool: str, test: Path) -> None:
    """On synthetic series: when they fire, and when not."""
    run(promtool, "test", "rules", str(test))


def test_every_file_of_rules_is_tested() -> None:
    """Each file of rules has a test file of the same name."""
    assert [path.name for path in TESTS] == [path.name for path in RULES]


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_seen_firing(alert: str) -> None:
    """A test shows each alert firing."""
    assert any(f'alertname="{alert}", alertstate="firing"' in path.read_text() for path in TESTS)


@pytest.mark.parametrize("record", RECORDS)
def test_every_recording_rule_is_tested(record: str) -> None:
    """A test checks the value of each recording rule."""
    assert any(f"labels: '{record}{{" in path.read_text() for path in TESTS)


def test_every_alert_has_its_page_and_no_page_is_left_over() -> None:
    """Alerts and pages match one to one."""
    assert sorted(ALERTS) == sorted(path.stem for path in PAGES.glob("Redelivery*.md"))
    assert len(set(ALERTS)) == len(ALERTS)


@pytest.mark.parametrize("rule", rules("alert"), ids=lambda rule: rule["alert"])
def test_an_alert_has_a_severity_and_a_runbook(rule: dict[str, Any]) -> None:
    """An external label can set the address; the page has all four parts."""
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert {"summary", "description"} < rule["annotations"].keys()
    default = "{{ with $externalLabels.redelivery_runbooks }}{{ . }}{{ else }}docs/runbooks{{ end }}"
    assert rule["annotations"]["runbook_url"] == f"{default}/{rule['alert']}.md"
    page = (PAGES / f"{rule['alert']}.md").read_text()
    assert page.startswith(f"# {rule['alert']}\n")
    for part in ("**Symptom.**", "**Impact.**", "**Causes**", "**What to do**"):
        assert part in page


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_refers_only_to_existing_pages(page: Path) -> None:
    """Each alert named in a page exists."""
    assert set(re.findall(r"Redelivery[A-Z]\w+", page.read_text())) <= set(ALERTS)
