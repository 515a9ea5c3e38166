"""How fetched records become work items: assigned partitions, their lanes, and the limits of the buffer."""
