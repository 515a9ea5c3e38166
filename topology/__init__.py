"""The pure core: what ActiveMQ's words mean on Kafka, as values and functions.

Nothing in this package does I/O, reads a clock, draws a random number or starts a thread.
"""
