"""The WebSocket gateway: carries bytes between sockets and the session log, and knows no session rule."""
