"""What the connections of the index and of conditions are set to."""

from pathlib import Path

from kafka_redelivery.consumers.index.store import connection, run
from kafka_redelivery.consumers.redrive import meant


def test_a_slow_question_prints_no_progress(tmp_path: Path) -> None:
    """DuckDB would print a bar after two seconds, into the output of a command or the log of the console."""
    asked = "SELECT current_setting('enable_progress_bar')"
    for opened in (connection(tmp_path), meant._opened()):
        assert run(opened, asked) == [(False,)]
        opened.close()
