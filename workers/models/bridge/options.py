"""Options of the model ``vllm-omni``."""

from __future__ import annotations

from dataclasses import dataclass

from .presets import PRESETS


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """Which servers are asked, and how.

    ``url`` are the addresses of their realtime endpoints (``ws://host:8000/v1/realtime``), comma separated, ``model``
    is what they are asked for. ``key_variable`` names the environment variable with their bearer token. ``sessions`` is
    how many each takes from this worker (``none``: as many as it takes). ``name`` is the model that sessions ask for
    here. ``preset`` is the row that stands in for a server that cannot be reached at load, with what no server says.

    ``secret_file`` holds the keys that seal what the log keeps of the server's resume token: lines of base64, 32 bytes
    each, the first seals. Without it the token is kept nowhere, and the server's session is lost with the worker.

    ``native_duplex`` is said to the server where the client does not say it. ``resume_s`` is how long a server that is
    gone is asked again for the session before another one is begun.
    """

    url: str | None = None
    model: str | None = None
    name: str = "vllm-omni"
    key_variable: str = "DUPLEX_ES_BRIDGE_KEY"
    sessions: int | None = None
    preset: str = "any"
    secret_file: str | None = None
    native_duplex: bool = True
    open_timeout_s: float = 10.0
    resume_s: float = 20.0

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses, in the order given."""
        return tuple(url.strip() for url in (self.url or "").split(",") if url.strip())

    def complaint(self) -> str | None:
        """Why these options cannot work, ``None`` when they can."""
        if self.preset not in PRESETS:
            return f"model vllm-omni: preset is {self.preset!r}; it is one of {', '.join(sorted(PRESETS))}"
        wrong = [url for url in self.urls if not url.startswith(("ws://", "wss://"))]
        if wrong:
            return f"model vllm-omni: url holds {wrong[0]!r}, which is no ws:// or wss:// address"
        return None
