"""What is sent to connected clients: the WebSocket, streams of events, and what is done about slow clients."""
