"""The Lua scripts: read from ``lua/``, called by name, kept loaded.

Each file opens with its promise and names its KEYS and ARGV; calls are put together from those names, so a call that
does not fit its script fails before it is sent. All scripts form one Redis Function library whose name carries the
version; where functions are unknown or forbidden, the same texts run by EVALSHA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files

from redis.exceptions import MovedError, NoScriptError, ResponseError

from .connections import Argument, Command, Exchange, Reply
from .errors import (
    ConfigurationError,
    Fenced,
    IncarnationMismatch,
    LogError,
    PositionAhead,
    PositionGone,
    SessionExists,
    SessionUnknown,
    TailLost,
    TokenRefused,
)
from .keys import SessionKeys, aside

LIBRARY = "dx2"
"""Name and version of the function library. A change of meaning gets a new name: two releases may share a store."""

SHARED = ("prelude", "prelude_heads", "prelude_tokens")
"""What scripts share, in this order."""

_HEADER = re.compile(r"^-- (KEYS|ARGV|REPLY|ERRORS|FLAGS)\s+(.*)$", re.MULTILINE)
_REFUSALS: Mapping[str, Callable[[str], LogError]] = {
    "FENCED": Fenced,
    "UNKNOWN": SessionUnknown,
    "EXISTS": SessionExists,
    "TOKEN": TokenRefused,
    "INCARNATION": IncarnationMismatch,
    "GONE": lambda first: PositionGone(int(first)),
    "AHEAD": lambda last: PositionAhead(int(last)),
    "LOST": lambda last: TailLost(int(last)),
}


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua file and what its header says."""

    name: str
    text: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    errors: frozenset[str]
    flags: tuple[str, ...]

    @classmethod
    def parse(cls, name: str, text: str) -> Script:
        """Read a script's header."""
        header = {label: words.split() for label, words in _HEADER.findall(text)}
        return cls(
            name=name,
            text=text,
            keys=tuple(header["KEYS"]),
            args=tuple(header["ARGV"]),
            errors=frozenset(header["ERRORS"]),
            flags=tuple(header.get("FLAGS", ())),
        )


@cache
def load_scripts() -> Mapping[str, Script]:
    """Every script by name, what they share included."""
    folder = files(__package__) / "lua"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".lua")), key=lambda path: path.name)
    return {path.name[:-4]: Script.parse(path.name[:-4], path.read_text("utf-8")) for path in paths}


def callable_scripts() -> list[Script]:
    """The scripts that can be called: all but what they share."""
    return [script for script in load_scripts().values() if script.name not in SHARED]


def shared_text() -> str:
    """What stands in front of each script."""
    return "".join(load_scripts()[name].text for name in SHARED)


@cache
def library() -> str:
    """The text of the function library."""
    parts = [f"#!lua name={LIBRARY}\n", shared_text()]
    for script in callable_scripts():
        flags = ", ".join(f"'{flag}'" for flag in script.flags)
        parts.append(
            f"\nredis.register_function{{function_name='{LIBRARY}_{script.name}', flags={{{flags}}},"
            f" callback=function(KEYS, ARGV)\n{script.text}end}}\n"
        )
    return "".join(parts)


@cache
def _evaluated(name: str) -> tuple[str, str]:
    text = shared_text() + load_scripts()[name].text
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a script, ready to be sent in either way."""

    name: str
    keys: Sequence[str]
    args: Sequence[Argument]


def session_call(name: str, session: SessionKeys, queue: str = "", **args: Argument) -> Call:
    """A call about one session. ``args`` are the script's ARGV by name; ``queue`` is the model whose
    queue ``ready`` is.

    Raises: TypeError when the arguments are not those of the script's header.
    """
    script = load_scripts()[name]
    if set(args) != set(script.args):
        raise TypeError(f"{name}.lua takes {script.args}, not {tuple(args)}")
    return Call(name, [_key(key, session, queue) for key in script.keys], [args[key] for key in script.args])


def _key(name: str, session: SessionKeys, queue: str) -> str:
    match name:
        case "head":
            return session.head
        case "in":
            return session.input.records
        case "in_audio":
            return session.input.audio
        case "out":
            return session.output.records
        case "out_audio":
            return session.output.audio
        case "snap":
            return session.snap
        case "sessions":
            return session.sessions
        case "in_aside" | "in_audio_aside" | "out_aside" | "out_audio_aside":
            return aside(_key(name.removesuffix("_aside"), session, queue))
        case "ready" if queue:
            return session.ready(queue)
    raise TypeError(f"no key is called {name} here")


def refused(reply: ResponseError) -> LogError:
    """What an error reply means to the caller."""
    code, _, detail = str(reply).partition(" ")
    if error := _REFUSALS.get(code):
        return error(detail)
    if code in ("NOPERM", "NOAUTH", "WRONGPASS") or type(reply).__name__ == "NoPermissionError":
        return ConfigurationError(f"the store forbids what the log needs: {reply}")
    if isinstance(reply, MovedError):
        return ConfigurationError("this server is a node of a cluster: use redis+cluster:// for it")
    return LogError(f"unexpected reply of the store: {reply}")


class Scripts:
    """Calls scripts on a node, and loads them there when they are missing."""

    def __init__(self) -> None:
        self.uses_functions = True

    async def load(self, exchange: Exchange) -> None:
        """Make every script callable on the node behind ``exchange``. Idempotent."""
        if self.uses_functions:
            (listed,) = await exchange([("FUNCTION", "LIST", "LIBRARYNAME", LIBRARY, "WITHCODE")])
            if not isinstance(listed, ResponseError):
                if library().encode() in _flat(listed):
                    return
                (loaded,) = await exchange([("FUNCTION", "LOAD", "REPLACE", library())])
                if not isinstance(loaded, ResponseError):
                    return
                if "compiling" in str(loaded):
                    raise LogError(f"the store cannot compile the function library: {loaded}")
            self.uses_functions = False
        texts = [_evaluated(script.name)[0] for script in callable_scripts()]
        for reply in await exchange([("SCRIPT", "LOAD", text) for text in texts]):
            if isinstance(reply, ResponseError):
                raise refused(reply)

    def command(self, call: Call) -> Command:
        """``call`` as a Redis command."""
        if self.uses_functions:
            return ["FCALL", f"{LIBRARY}_{call.name}", len(call.keys), *call.keys, *call.args]
        return ["EVALSHA", _evaluated(call.name)[1], len(call.keys), *call.keys, *call.args]

    async def run(self, exchange: Exchange, calls: Sequence[Call]) -> list[Reply]:
        """Run ``calls`` in one pipeline; error replies are values. A node that lost the scripts gets them again."""
        replies = await exchange([self.command(call) for call in calls])
        missing = [n for n, reply in enumerate(replies) if _is_missing(reply)]
        if missing:
            await self.load(exchange)
            again = await exchange([self.command(calls[n]) for n in missing])
            for n, reply in zip(missing, again, strict=True):
                replies[n] = reply
        return replies

    async def call(self, exchange: Exchange, call: Call) -> Reply:
        """The reply to one call. Raises: the LogError that an error reply stands for."""
        (reply,) = await self.run(exchange, [call])
        if isinstance(reply, ResponseError):
            raise refused(reply)
        return reply


def _is_missing(reply: Reply) -> bool:
    return isinstance(reply, NoScriptError) or (
        isinstance(reply, ResponseError)
        and ("Function not found" in str(reply) or str(reply).lower().startswith("unknown command"))
    )


def _flat(reply: Reply) -> set[bytes]:
    """Every string in a nested reply, whether RESP 2 or 3 shaped it."""
    if isinstance(reply, bytes):
        return {reply}
    if isinstance(reply, dict):
        reply = [*reply.keys(), *reply.values()]
    return {text for part in reply for text in _flat(part)} if isinstance(reply, list | tuple | set) else set()
