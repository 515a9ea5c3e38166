"""The names of the package are there without the libraries of its extras."""

import subprocess
import sys

import kafka_redelivery


def test_importing_all_names_needs_no_extra() -> None:
    """NumPy comes with the extra for Spark alone."""
    program = (
        "import sys; sys.modules |= dict.fromkeys(('numpy', 'pyarrow', 'pyspark'))\n"
        "from kafka_redelivery import *\n"
        "print(App.__name__, HandlerKit.__name__, 'BatchContext' in globals())"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "App HandlerKit False\n"


def test_editors_and_notebooks_complete_names_that_are_not_imported_yet() -> None:
    """A module with ``__getattr__`` has to list them itself."""
    assert set(kafka_redelivery.__all__) <= set(dir(kafka_redelivery))
