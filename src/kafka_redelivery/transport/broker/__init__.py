"""An Apache Kafka on this machine: its jars, Java, start and stop. Needs the optional extra `broker`."""
