"""ActiveMQ Classic's configuration of destinations: names, wildcard maps, dead-letter strategies, plugins.

The redelivery policy itself is in :mod:`topology.policy`, its delays in :mod:`topology.backoff`.
"""
