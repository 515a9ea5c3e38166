"""The pure core: ActiveMQ's redelivery and dead-letter rules for Kafka, as values and functions.

No module of this package does input or output, reads a clock, draws random numbers or starts threads.
"""
