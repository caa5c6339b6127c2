"""Learning that what was written would survive, without making any append wait for it.

A store writes one ordered stream to its disk and to its replicas. So a small marker, written on a connection of its own
after an append was answered, vouches for it as soon as the marker is confirmed: by WAITAOF from Redis 7.2 on where the
store has an append-only file, by WAIT where replicas are asked for. Whoever waits at that time shares one question. The
same connection first looks whether the log still holds what this process was shown: behind it may be a store that was
promoted without its last moments, whose word is worth nothing for what it never had.

WAIT does not make the store strongly consistent: what a replica confirmed is lost all the same when another one is
promoted, or both machines stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from redis.exceptions import ResponseError

from .api import EntryId
from .connections import Broken, Command, Link, Reply
from .errors import ConfigurationError, LogError, LogUnavailable, SessionUnknown
from .keys import SessionKeys, marker
from .lanes import Backoff, Trouble, is_demoted, is_elsewhere, is_transient, nobody_minds, stop
from .positions import Known
from .scripts import Scripts, refused, session_call
from .settings import LogSettings

WAITAOF_SINCE = (7, 2)
MARKER_TTL_MS = 60_000
FRESH_S = 5.0
"""How long it is believed that a store keeps nothing, before it is asked again."""

NOTHING_SURVIVES = (
    "the store keeps nothing that would survive it: set appendonly yes (WAITAOF needs Redis 7.2 or Valkey), or add a"
    " replica"
)


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Who has to confirm a write: the store's own disk, and how many replicas."""

    disk: bool
    replicas: int


def witnesses(info: Mapping[str, str], settings: LogSettings) -> Witnesses | None:
    """Who can vouch for a node with this INFO; ``None`` when it keeps nothing that would survive it.

    Replicas are asked for if the settings say so, and where no disk can be asked.
    """
    # Valkey says which Redis it is compatible to.
    version = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])
    disk = info.get("aof_enabled") == "1" and version >= WAITAOF_SINCE
    replicas = settings.replicas
    if not disk and not replicas and int(info.get("connected_slaves", 0)):
        replicas = 1
    return Witnesses(disk, replicas) if disk or replicas else None


class Elsewhere(LogUnavailable):
    """Another node of the cluster serves this session now: ask that one."""


@dataclass(slots=True, eq=False)
class _Question:
    """One call of ``persisted``: is the log of this session safe, as far as it was known when that was asked?"""

    session: SessionKeys
    known: Known
    answer: asyncio.Future[None]
    deadline: float

    def is_whole(self, look: Reply) -> bool:
        """Whether a log with this standing still holds what was known, and not something else under the same seq."""
        last_input, last_seq, written_under = EntryId.parse(look[3]), look[4], look[9]
        output = self.known.output
        return bool(
            output.number <= last_seq
            and not 0 < output.generation < written_under
            and self.known.input <= last_input
        )

    def fail(self, error: LogError) -> None:
        """Tell whoever asked."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Durabilities(Protocol):
    """The nodes of a store; see ``Nodes``."""

    async def durability(self, slot: int) -> Durability:
        """Who knows what of ``slot`` would survive."""


async def persisted(nodes: Durabilities, session: SessionKeys, known: Known, settings: LogSettings) -> None:
    """As ``Durability.persisted``, wherever the session is served."""
    loop, backoff = asyncio.get_running_loop(), Backoff()
    deadline = loop.time() + settings.append_timeout_s
    while True:
        try:
            return await (await nodes.durability(session.slot)).persisted(session, known)
        except Elsewhere:
            if loop.time() > deadline:
                raise
        await backoff.pause()


class Durability:
    """Asks one node. ``asked`` counts the questions that were put to it, however many callers shared one."""

    def __init__(
        self, link: Link, scripts: Scripts, settings: LogSettings, *, trouble: Trouble = nobody_minds
    ) -> None:
        self._link = link
        self._scripts = scripts
        self._settings = settings
        self._trouble = trouble
        self._questions: list[_Question] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_s = 0.0
        self._known_epoch = 0
        self._known_until_s = 0.0
        self._witnesses: Witnesses | None = None
        self.asked = 0

    async def persisted(self, session: SessionKeys, known: Known) -> None:
        """Return when all that this node answered before would survive it, and its log holds what is ``known``.

        Raises: LogUnavailable when that is not confirmed in time, Elsewhere when another node is responsible,
        SessionUnknown, ConfigurationError when nothing that this node keeps would survive it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.append_timeout_s
        question = _Question(session, known, loop.create_future(), deadline)
        self._questions.append(question)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._serve(), name="duplex-es-durability")
        await question.answer

    def doubt(self) -> None:
        """The connection may lead to the wrong place: make it anew."""
        self._link.doubt()

    def hand_back(self) -> None:
        """End every question in Elsewhere: another node may be the one to ask now."""
        for question in self._questions:
            question.fail(Elsewhere("the slot has moved"))

    async def close(self) -> None:
        """Stop, close the connection, and fail whoever still waits."""
        task, self._task = self._task, None
        await stop(task)
        await self._link.close()

    # -- the task that owns the connection -------------------------------------------------------------------------

    async def _serve(self) -> None:
        backoff = Backoff()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._questions:
                    await self._gather()
                    reason = "the store did not confirm in time"
                    try:
                        if await self._ask():
                            backoff.reset()
                            continue
                    except Broken as failure:
                        reason = str(failure)
                        self._trouble()
                    except LogError as refusal:
                        self._give_up(self._questions, refusal)
                        continue
                    self._expire(reason)
                    await backoff.pause()
        finally:
            self._give_up(self._questions, LogUnavailable("the log is closed"))

    async def _gather(self) -> None:
        """Let callers come together, so that many of them share few questions."""
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._next_s - now_s))
        self._next_s = max(now_s, self._next_s) + self._settings.vouch_interval_s

    async def _ask(self) -> bool:
        """Put one question for all that wait now; answer those it answers. False when any of them has to wait on."""
        await self._link.ensure()
        epoch = self._link.epoch
        asked_of = await self._who(epoch)
        looks = await self._look(list(self._questions))
        if not looks:
            return True
        first = next(iter(looks))
        commands: list[Command] = [("SET", marker(first.session.partition), "1", "PX", MARKER_TTL_MS)]
        # Half of what a reply may take, so that a store that is merely slow is not taken for one that is away.
        timeout_ms = int(self._settings.socket_timeout_s * 500)
        if asked_of.replicas:
            commands.append(("WAIT", asked_of.replicas, timeout_ms))
        if asked_of.disk:
            commands.append(("WAITAOF", 1, 0, timeout_ms))
        self.asked += 1
        written, *confirmed = await self._link.exchange(commands)
        if self._refuses([*looks.values(), written]) or self._link.epoch != epoch:
            return False
        if any(isinstance(reply, ResponseError) for reply in confirmed):
            self._known_epoch = 0  # somebody reconfigured the store: see who can be asked now
            return False
        if asked_of.replicas and confirmed.pop(0) < asked_of.replicas:
            return False
        if asked_of.disk and confirmed.pop(0)[0] < 1:
            return False
        return self._answer(looks)

    async def _who(self, epoch: int) -> Witnesses:
        """Who has to confirm, as far as known; asked anew on each connection. Raises: ConfigurationError."""
        now_s = asyncio.get_running_loop().time()
        if self._known_epoch != epoch or (self._witnesses is None and now_s > self._known_until_s):
            (info,) = await self._link.exchange([("INFO",)])
            if isinstance(info, ResponseError):
                raise ConfigurationError(f"the store forbids INFO, without which nothing can be vouched for: {info}")
            self._witnesses = witnesses(fields_of(info), self._settings)
            self._known_epoch, self._known_until_s = epoch, now_s + FRESH_S
        if self._witnesses is None:
            raise ConfigurationError(NOTHING_SURVIVES)
        return self._witnesses

    async def _look(self, waiting: Sequence[_Question]) -> dict[_Question, Reply]:
        """Where the logs end that are asked about; whoever turned to the wrong node is told so."""
        calls = [
            session_call(
                "look", one.session, incarnation=one.session.ref.incarnation, after_seq=one.known.output.number
            )
            for one in waiting
        ]
        looks: dict[_Question, Reply] = {}
        for question, look in zip(waiting, await self._scripts.run(self._link.exchange, calls), strict=True):
            if is_elsewhere(look):
                self._trouble(look)
                self._give_up([question], Elsewhere(str(look)))
            else:
                looks[question] = look
        return looks

    def _refuses(self, replies: Sequence[Reply]) -> bool:
        """Whether the store asks for patience. Raises: the LogError that another error reply stands for."""
        refusals = [reply for reply in replies if isinstance(reply, ResponseError)]
        if not refusals:
            return False
        self._trouble(*refusals)
        if any(is_demoted(refusal) for refusal in refusals):
            self._link.doubt()
        for refusal in refusals:
            if not is_transient(refusal):
                raise refused(refusal)
        return True

    def _answer(self, looks: Mapping[_Question, Reply]) -> bool:
        """Answer what can be answered, now that all that was looked at is safe. Whether that was everything."""
        whole = True
        for question, look in looks.items():
            if look[0] == b"gone":
                question.fail(SessionUnknown(question.session.member))
            elif not question.is_whole(look):
                whole = False  # the store lost it, and whoever wrote it may be about to write it again
                continue
            elif not question.answer.done():
                question.answer.set_result(None)
            self._questions.remove(question)
        return whole

    def _expire(self, reason: str) -> None:
        now_s = asyncio.get_running_loop().time()
        late = [one for one in self._questions if one.deadline <= now_s or one.answer.done()]
        self._give_up(late, LogUnavailable(reason))

    def _give_up(self, questions: Sequence[_Question], error: LogError) -> None:
        for question in list(questions):
            question.fail(error)
            self._questions.remove(question)


def fields_of(info: bytes | str) -> dict[str, str]:
    """What INFO says, by name."""
    text = info if isinstance(info, str) else bytes(info).decode(errors="replace")
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
