"""`clew serve` and `clew mcp`"""
