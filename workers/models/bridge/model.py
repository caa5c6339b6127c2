"""The bridge's card, its servers, and its sessions."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping

from duplex_es.model import Emit, ModelInfo, ModelRefused, OpenModel
from duplex_es.protocol import ERRORS, UpdateSession

from ..options import read_options
from .card import card
from .options import BridgeOptions
from .presets import PRESETS
from .seal import Seal
from .servers import NoServer, Refused, Servers
from .session import BridgeSession
from .wording import opening


class BridgeModel:
    """Realtime servers behind the contract: each session here is one session there, resumed when this worker dies.

    ``sessions`` are those that are open.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises: ValueError for an option that there is not, or that cannot work."""
        self.options = read_options(BridgeOptions, options, "vllm-omni")
        if complaint := self.options.complaint():
            raise ValueError(complaint)
        self._preset = PRESETS[self.options.preset]
        self._seal = Seal()
        self._servers: Servers | None = None
        self.sessions: weakref.WeakSet[BridgeSession] = weakref.WeakSet()
        self.info: ModelInfo = card(self.options.name, self._preset, None, keeps_token=False)

    async def load(self) -> None:
        """Read the keys, and ask a server what it can do; where none answers the preset's row holds.

        Raises: RuntimeError without an address or when the server refuses, SecretUnusable.
        """
        options = self.options
        if not options.urls:
            raise RuntimeError("option url is missing: ws://host:8000/v1/realtime, or several, comma separated")
        self._seal = Seal.read(options.secret_file)
        servers = Servers(
            options.urls,
            model=options.model,
            key=os.environ.get(options.key_variable) or None,
            most=options.sessions,
            open_timeout_s=options.open_timeout_s,
        )
        try:
            created = await servers.probe(self._probing())
        except Refused as refused:
            raise RuntimeError(f"the server refuses a session: {refused.code}: {refused.message}") from refused
        said = None if created is None else created.session
        self.info = card(options.name, self._preset, said, keeps_token=options.secret_file is not None)
        self._servers = servers

    def _probing(self) -> UpdateSession:
        request = OpenModel(session_id="probe", incarnation=0, epoch=0)
        return opening(request, self.options, self._preset, ends_turns=False)

    async def open(self, request: OpenModel, emit: Emit) -> BridgeSession:
        """Begin a session at a server that has room, or take up the one that is there. Raises: ModelRefused."""
        if self._servers is None:
            raise RuntimeError("the bridge is not loaded")
        session = BridgeSession(request, emit, self._servers, self.info, self.options, self._preset, self._seal)
        try:
            await session.open()
        except NoServer as none:
            code = "resource_exhausted" if none.busy else "runtime_open_failed"
            message = "All servers of the model are busy." if none.busy else "No server of the model can be reached."
            raise ModelRefused(code, message) from none
        except Refused as refused:
            code = refused.code if refused.code in ERRORS else "runtime_open_failed"
            raise ModelRefused(code, refused.message, refused.param) from refused
        self.sessions.add(session)
        return session

    async def unload(self) -> None:
        """Nothing to free: sessions hang up themselves."""
        self._servers = None
