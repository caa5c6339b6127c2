"""Nemotron VoiceChat: what of it needs neither weights nor packages; its speech is served by the bridge or a script."""
