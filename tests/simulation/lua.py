"""Runs the log's own Lua files against the stand-in store, compiled once for all schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import Any

import lupa.lua51

from .store import Reply, Store, Words, run
from .streams import Refused

_SETUP = b"""
local call, pcall_, register = ...
redis = {
  call = call, pcall = pcall_, register_function = register,
  error_reply = function(text) return {err = text} end,
  status_reply = function(text) return {ok = text} end,
  log = function() end, setresp = function() end, sha1hex = function(text) return text end,
}
"""


class Function:
    """One callable script, and whether it may run where no writes are taken."""

    def __init__(self, callback: Any, flags: Sequence[str]) -> None:
        self.callback = callback
        self.reads_only = "no-writes" in flags
        self.allows_oom = self.reads_only or "allow-oom" in flags


class Scripting:
    """One Lua state. ``compiled`` maps a library's text to its functions, a script's digest to itself."""

    def __init__(self) -> None:
        self._lua = lupa.lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True, register_eval=False)
        self._type = lupa.lua51.lua_type
        self._store: Store | None = None
        self._registered: dict[str, Function] = {}
        self.libraries: dict[bytes, dict[str, Function]] = {}
        self.scripts: dict[str, Function] = {}
        self.rewrite: Callable[[bytes], bytes] | None = None
        self._lua.execute(_SETUP, self._call, self._pcall, self._register)

    def library(self, text: bytes) -> dict[str, Function]:
        """The functions of a library. Raises: Refused when it does not compile."""
        if text not in self.libraries:
            self._registered = {}
            try:
                self._lua.execute(self._rewritten(text).split(b"\n", 1)[1])
            except lupa.lua51.LuaError as error:
                raise Refused(f"ERR Error compiling function: {error}") from error
            self.libraries[text] = self._registered
        return self.libraries[text]

    def script(self, text: bytes) -> str:
        """Keep a script for EVALSHA; its digest."""
        digest = sha1(text, usedforsecurity=False).hexdigest()
        if digest not in self.scripts:
            made = self._lua.eval(b"function(KEYS, ARGV)\n" + self._rewritten(text) + b"\nend")
            flags = re.search(rb"^-- FLAGS\s+(.*)$", text.rsplit(b"-- KEYS", 1)[-1], re.MULTILINE)
            self.scripts[digest] = Function(made, flags[1].decode().split() if flags else ())
        return digest

    def forget(self) -> None:
        """Compile everything anew when it is next asked for."""
        self.libraries.clear()
        self.scripts.clear()

    def _rewritten(self, text: bytes) -> bytes:
        return text if self.rewrite is None else self.rewrite(text)

    def run(self, store: Store, function: Function, keys: Words, args: Words) -> Reply:
        """Call a function. Raises: Refused for an error reply, or where a command inside failed."""
        table = self._lua.table_from
        outer, self._store = self._store, store
        try:
            return self._to_reply(function.callback(table(keys), table(args)))
        finally:
            self._store = outer

    # -- redis.* -----------------------------------------------------------------------------------------------------

    def _words(self, args: tuple[Any, ...]) -> list[bytes]:
        return [arg if type(arg) is bytes else b"%.17g" % arg for arg in args]

    def _call(self, *args: Any) -> Any:
        assert self._store is not None
        return self._to_lua(run(self._store, self._words(args)))

    def _pcall(self, *args: Any) -> Any:
        try:
            return self._call(*args)
        except Refused as refusal:
            return self._lua.table_from({b"err": str(refusal).encode()})

    def _register(self, options: Any) -> None:
        flags = options[b"flags"]
        self._registered[options[b"function_name"].decode()] = Function(
            options[b"callback"], [flag.decode() for flag in flags.values()] if flags is not None else ()
        )

    def _to_lua(self, reply: Reply) -> Any:
        if reply is None:
            return False
        if type(reply) is list:
            return self._lua.table_from([self._to_lua(part) for part in reply])
        return reply

    def _to_reply(self, value: Any) -> Reply:
        kind = type(value)
        if kind is bytes:
            return value
        if kind is int or kind is float:
            return int(value)
        if value is None or value is False:
            return None
        if value is True:
            return 1
        if (error := value[b"err"]) is not None:
            raise Refused(error.decode())
        if (status := value[b"ok"]) is not None:
            return status
        found, at = [], 1
        while (part := value[at]) is not None:
            found.append(self._to_reply(part))
            at += 1
        return found


SCRIPTING = Scripting()
"""Compiled scripts hold no state of a store, so every schedule shares them."""
