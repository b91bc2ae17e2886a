"""HTTP: what `clew serve` answers. Maps records to JSON and errors to status codes; has no domain rules of its own."""
