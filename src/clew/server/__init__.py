"""The HTTP server of `clew serve`. It maps records to JSON and errors to status codes, and has no domain rules."""
