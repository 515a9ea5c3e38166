"""Loads a task in a Python worker, where Spark puts the files of a job in front of the standard library.

This module imports only what Python and PySpark have imported before: a user's ``grp.py`` must not be found instead.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from importlib import import_module


def load_task(home: str, plan: bytes) -> object:
    """Return the task with a pickled plan, after the standard library has its place in the search path again.

    Args:
        home: the module of ``Task``, which imports modules that could be hidden before.
        plan: the pickled plan.
    """
    from pyspark import SparkFiles  # noqa: PLC0415 - only Python workers need it

    standard_library_first(SparkFiles.getRootDirectory())
    task: Callable[[object], object] = import_module(home).Task
    return task(pickle.loads(plan))  # noqa: S301 - from our own driver


def standard_library_first(root: str) -> None:
    """Move the folder of a job's files, and the archives in it, behind the standard library in ``sys.path``."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - as in sys.path
    shipped = [path for path in sys.path if path == root or path.startswith(root + os.sep)]
    others = [path for path in sys.path if path not in shipped]
    at = [number for number, path in enumerate(others, 1) if path in {library, os.path.join(library, "lib-dynload")}]  # noqa: PTH118
    if at:
        sys.path[:] = [*others[: at[-1]], *shipped, *others[at[-1] :]]
