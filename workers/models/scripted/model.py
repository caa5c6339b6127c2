"""The scripted model's card, and where a session's script comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from duplex_es.model import Emit, ModelInfo, ModelRefused, OpenModel

from ..floor import DEFAULT_LEAD_MS
from ..options import read_options
from .profiles import PLAIN_CARD, PROFILES, Profile
from .script import DEFAULT_SCRIPT, BadScript, read_script
from .session import ScriptedSession, Stage


@dataclass(frozen=True, slots=True)
class ScriptedOptions:
    """``script`` is a path or inline JSON, ``profile`` the model to look like, ``name`` the one to answer to.

    ``lead_ms`` is how far audio runs ahead of real time (``none``: as fast as possible), ``chunk_ms`` how much of it
    comes at a time. The others change the model's card.
    """

    script: str | None = None
    profile: str | None = None
    name: str | None = None
    lead_ms: int | None = DEFAULT_LEAD_MS
    chunk_ms: int = 160
    auto_response: bool | None = None
    overlap_policy: str | None = None
    can_rebuild: bool | None = None


class ScriptedModel:
    """Plays scripts: the session's (``extra_body.script``), else the worker's (option ``script``), else a default."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises: ValueError for an unknown option or profile, or a script that cannot be played."""
        self.options = read_options(ScriptedOptions, options, "scripted")
        self.profile = _profile(self.options)
        self.script = read_script(self.options.script if self.options.script else self.profile.script)
        self.info = _card(self.profile.info, self.options)

    async def load(self) -> None:
        """Nothing to load."""

    async def unload(self) -> None:
        """Nothing to free."""

    async def open(self, request: OpenModel, emit: Emit) -> ScriptedSession:
        """Begin a session and run its ``open`` step. Raises: ModelRefused by the rules of its profile, and for a

        script that cannot be played.
        """
        is_native = self.profile.is_native(request)
        if is_native:
            self.profile.refuse(request)
        script = self.script
        if "script" in request.extra_body:
            try:
                script = read_script(request.extra_body["script"])
            except BadScript as error:
                raise ModelRefused("invalid_duplex_runtime_config", str(error), "session.extra_body.script") from error
        stage = Stage(
            lead_ms=self.options.lead_ms,
            chunk_ms=self.options.chunk_ms,
            input_rate_hz=self.info.input_rate_hz,
            output_rate_hz=self.info.output_rate_hz,
            transcribes=self.info.transcribes,
            units=self.profile.units if is_native else None,
            answers_by_itself=_answers_by_itself(self.info, request),
            can_rebuild=self.info.can_rebuild,
        )
        return ScriptedSession(request, emit, script, stage)


def _profile(options: ScriptedOptions) -> Profile:
    if options.profile is None:
        capabilities = msgspec.structs.replace(PLAIN_CARD.capabilities, chunk_period_ms=options.chunk_ms)
        return Profile(info=msgspec.structs.replace(PLAIN_CARD, capabilities=capabilities), script=DEFAULT_SCRIPT)
    if options.profile not in PROFILES:
        raise ValueError(f"model scripted: profile is {options.profile!r}; it is one of {', '.join(PROFILES)}")
    return PROFILES[options.profile]


def _card(info: ModelInfo, options: ScriptedOptions) -> ModelInfo:
    """The profile's card with what the options change; in its chat lane it goes by the same name."""
    named = {"name": options.name} if options.name else {}
    fallback = info.without_opt_in
    changed = {
        "auto_response": options.auto_response,
        "overlap_policy": options.overlap_policy,
        "can_rebuild": options.can_rebuild,
    }
    return msgspec.structs.replace(
        info,
        without_opt_in=None if fallback is None else msgspec.structs.replace(fallback, **named),
        **{key: value for key, value in changed.items() if value is not None},
        **named,
    )


def _answers_by_itself(info: ModelInfo, request: OpenModel) -> bool:
    """Whether the session lets the model decide when to speak."""
    said = [request.extra_body[key] for key in ("auto_response", "full_duplex") if key in request.extra_body]
    return said[0] is True if said else info.auto_response
