"""A command that is printed to be copied names the file of the command that has printed it."""

from pathlib import Path

import pytest

from kafka_redelivery.cli.commands.dlq_options import load_letters
from kafka_redelivery.cli.options import DEFAULT_CONFIG
from kafka_redelivery.dead_letters.ledger import Ledger

_TEXT = "group: billing\nkafka: {bootstrap.servers: 'localhost:1'}\nsources: [{topic: orders}]\n"


@pytest.mark.parametrize(
    ("file", "option"),
    [
        (DEFAULT_CONFIG, ""),
        (Path("billing.yaml"), " --config billing.yaml"),
        (Path("of Ann/billing.yaml"), " --config 'of Ann/billing.yaml'"),
    ],
)
@pytest.mark.parametrize(("group", "of_group"), [("billing", ""), ("audit", " --of-group audit")])
def test_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path, option: str, group: str, of_group: str
) -> None:
    """Otherwise `resume` would read another configuration, or none."""
    monkeypatch.chdir(tmp_path)
    file.parent.mkdir(exist_ok=True)
    file.write_text(_TEXT, encoding="utf-8")
    ledger = Ledger.__new__(Ledger)
    ledger._settings, ledger.group = load_letters(file, None), group
    assert ledger.command("resume", "3f9a2c01bd") == f"redelivery dlq resume 3f9a2c01bd{of_group}{option}"
