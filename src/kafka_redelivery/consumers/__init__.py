"""The worker and the delay scheduler: from fetched records, through handlers and policies, to committed writes."""
