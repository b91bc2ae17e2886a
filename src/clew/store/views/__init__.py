"""What surfaces show of the store, read in one transaction: threads, search hits, counts, versions."""
