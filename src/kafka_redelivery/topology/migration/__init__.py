"""Imports a broker's configuration (``activemq.xml``, ``broker.xml``) or a connection URI as our YAML."""
