"""Handlers of the user: loading, calling them with decoded records, and the slots and child processes they run in."""
