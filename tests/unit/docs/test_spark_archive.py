"""The archive that docs/spark.md makes for executors does not contain PySpark, which they have."""

import re
from fnmatch import fnmatch
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_archive_leaves_pyspark_out() -> None:
    """Only PySpark: ``venv-pack`` matches its patterns as :mod:`fnmatch` does."""
    text = (DOCS / "spark.md").read_text(encoding="utf-8")

    (pattern,) = re.findall(r"venv-pack -p environment .* --exclude '(.+)'", text)

    packages = "lib/python3.11/site-packages"
    assert fnmatch(f"{packages}/pyspark/jars/spark-core.jar", pattern)
    for kept in ("kafka_redelivery/pipeline/task/task.py", "pyarrow/lib.so", "pyspark_extension/module.py"):
        assert not fnmatch(f"{packages}/{kept}", pattern)
