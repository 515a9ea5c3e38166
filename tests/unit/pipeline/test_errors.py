"""Of Spark's long errors, the log and the last message of a command have the line that names the cause."""

import pytest

from kafka_redelivery.pipeline.errors import first_line

_TRACEBACK = """Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 3480, in main
    func, profiler, deserializer, serializer = read_udfs(pickleSer, infile, eval_type)
                                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/opt/spark/python/lib/pyspark.zip/pyspark/cloudpickle/cloudpickle.py", line 649, in subimport
    __import__(name)
"""
_MISSING = "ModuleNotFoundError: No module named 'kafka_redelivery'"
_TASK = "Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent failure: Lost task 0.3"
_JAVA = "\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:602)\n\t... 21 more"

_PYTHON = f"org.apache.spark.api.python.PythonException: {_TRACEBACK}{_MISSING}\n\n{_JAVA}"
_CALLING = "An error occurred while calling o228.collectToPython.\n"
_FAILED = f"{_CALLING}: org.apache.spark.SparkException: {_TASK}"
_OWN = "kafka_redelivery.transport.errors.TransportError: no broker"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (f"An exception was thrown from the Python worker:\n{_TRACEBACK}{_MISSING}", _MISSING),
        (f"An exception was thrown from the Python worker: {_TRACEBACK}{_MISSING}\na note", _MISSING),
        (f"{_FAILED}: {_PYTHON}\n\nDriver stacktrace:\n{_JAVA}\nCaused by: {_PYTHON}", _MISSING),
        (
            f"{_TRACEBACK}KeyError: 1\n\nDuring handling of that exception:\n\n{_TRACEBACK}OSError: full\n",
            "OSError: full",
        ),
        (
            f"Message: {_TRACEBACK}py4j.Py4JJavaError: {_CALLING}: java.io.IOException: full\n{_JAVA}\n\n= Query",
            "java.io.IOException: full",
        ),
        (f"{_TRACEBACK}{_OWN}\n\n{_JAVA}\n{_TRACEBACK}KeyError: 1", _OWN),
        (f"{_FAILED}\n{_JAVA}", f"org.apache.spark.SparkException: {_TASK}"),
        (
            "+ Exception Group Traceback (most recent call last):\n  | no",
            "+ Exception Group Traceback (most recent call last)",
        ),
        ("", "RuntimeError"),
    ],
)
def test_the_line_with_the_cause(message: str, cause: str) -> None:
    """It is the exception of the last Python traceback, which began in the process where the error began."""
    assert first_line(RuntimeError(message)) == cause
