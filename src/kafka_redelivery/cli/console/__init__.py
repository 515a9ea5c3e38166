"""`redelivery console`: a web console for the dead letters of a group, in one process."""
