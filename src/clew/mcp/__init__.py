"""The MCP surface: what an agent may ask of Clew, over stdio."""
