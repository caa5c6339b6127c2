"""Several hosts on one machine: network namespaces on a bridge where they can be made, else addresses of loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

NAMESPACES, LOOPBACK = "network namespaces", "loopback addresses"


class Hosts:
    """A small network. ``with`` it: hosts are made by name as they are asked for, and all is gone afterwards.

    ``kind`` says what hosts are. The process that made them reaches every host, and every host reaches the others.
    """

    def __init__(self, *, namespaces: bool | None = None) -> None:
        """``namespaces``: insist on them or do without; by default they are used where they can be made."""
        self._tag = f"dx{os.getpid() % 100_000}"
        self._net = 1 + os.getpid() % 250
        self._names: list[str] = []
        self._wanted = namespaces
        self.kind = LOOPBACK

    def __enter__(self) -> Hosts:
        if self._wanted is not False and self._bridged():
            self.kind = NAMESPACES
        elif self._wanted:
            raise RuntimeError("network namespaces cannot be made here: root and the program `ip` are needed")
        return self

    def __exit__(self, *error: object) -> None:
        if self.kind == NAMESPACES:
            for name in self._names:
                _ip("netns", "del", self._namespace(name))
            _ip("link", "del", self._tag)

    def address(self, name: str) -> str:
        """The address of a host, which is made now if there is none of that name."""
        if name not in self._names:
            self._names.append(name)
            if self.kind == NAMESPACES:
                self._make(name)
        number = 10 + self._names.index(name)
        return f"10.77.{self._net}.{number}" if self.kind == NAMESPACES else f"127.77.{self._net}.{number}"

    def command(self, name: str, words: Sequence[str]) -> list[str]:
        """What runs ``words`` on that host; signals to the process reach the program itself."""
        self.address(name)
        return ["ip", "netns", "exec", self._namespace(name), *words] if self.kind == NAMESPACES else list(words)

    def _namespace(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _bridged(self) -> bool:
        if os.geteuid() != 0 or shutil.which("ip") is None or not _ip("link", "add", self._tag, "type", "bridge"):
            return False
        return _ip("addr", "add", f"10.77.{self._net}.1/24", "dev", self._tag) and _ip("link", "set", self._tag, "up")

    def _make(self, name: str) -> None:
        space, number = self._namespace(name), self._names.index(name)
        link = f"{self._tag}v{number}"  # at most 15 characters
        address = f"10.77.{self._net}.{10 + number}/24"
        steps = (
            ("netns", "add", space),
            ("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space),
            ("link", "set", link, "master", self._tag, "up"),
            ("-n", space, "addr", "add", address, "dev", "eth0"),
            ("-n", space, "link", "set", "eth0", "up"),
            ("-n", space, "link", "set", "lo", "up"),
        )
        for step in steps:
            if not _ip(*step):
                raise RuntimeError(f"ip {' '.join(step)} failed")


def _ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0
