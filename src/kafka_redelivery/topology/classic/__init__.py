"""ActiveMQ Classic: redelivery policies, destinations and their wildcards, dead-letter strategies and plugins."""
