"""Connections and what is sent over them: the WebSocket, event streams, and how slow clients are handled."""
