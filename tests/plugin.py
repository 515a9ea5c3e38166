"""How a session inside a test loads the pytest plugin."""

from typing import Final

PLUGIN: Final = "kafka_redelivery.consumers.pytest_plugin"

LOADED: Final = ("-p", PLUGIN, "-p", "no:redelivery", "-p", "no:cacheprovider", "-p", "no:randomly")
"""Under its module's name, so that it is loaded once whether or not the environment has its entry point."""
