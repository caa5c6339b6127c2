"""The worker host: claims sessions, decides by the session core, and runs their models."""
