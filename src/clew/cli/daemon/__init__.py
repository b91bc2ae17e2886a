"""The commands `clew serve` and `clew mcp`."""
