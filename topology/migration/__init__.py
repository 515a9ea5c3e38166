"""Reads a broker's own configuration and writes ours: ``activemq.xml``, ``broker.xml``, connection URIs."""
