"""The Spark session and what it needs: jars, Java, options of the Kafka source, and schema files."""
