"""What users write passes ``mypy --strict``: README and its test as printed, and typed handlers. Wrong ones do not."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
HANDLERS = (ROOT / "docs" / "handlers.md").read_text(encoding="utf-8")
BANK = """
from typing import Any

def charge(order: dict[str, Any]) -> dict[str, Any]:
    return order
"""


@pytest.mark.slow
@pytest.mark.long
def test_strict_type_checking_of_what_users_write(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Without our settings of mypy. `./dev check` checks typed_right.py and typed_wrong.py with them in every run."""
    [handler] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    test = re.findall(r"```python\n(.*?)```", TESTING, re.DOTALL)[0]
    [typed] = re.findall(r"```python\n(# typed.py\n.*?)```", HANDLERS, re.DOTALL)
    files = {"handlers": handler, "test_charge": test, "bank": BANK, "typed": typed}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    for name in ("typed_right.py", "typed_wrong.py"):
        shutil.copy(Path(__file__).with_name(name), tmp_path)
    assert pytestconfig.cache is not None
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--cache-dir", str(pytestconfig.cache.mkdir("mypy")), "."]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("", "")
