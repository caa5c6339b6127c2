"""The part of the argument tree that reads the log."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from . import audio, carry, diff, listing, show, stats, tail, verify

Commands = argparse._SubParsersAction
Leaf = Callable[["Commands[argparse.ArgumentParser]", str, str], argparse.ArgumentParser]


def add_log(commands: Commands[argparse.ArgumentParser], make_leaf: Leaf) -> None:
    """``duplex-es log …``."""
    group = commands.add_parser("log", help="read what the log holds", description="read what the log holds")
    leaves = group.add_subparsers(metavar="COMMAND", required=True)
    leaf = make_leaf(leaves, "show", "one session's records in readable lines, both streams merged by time")
    leaf.set_defaults(run=show.run)
    _session(leaf)
    leaf.add_argument("--all", action="store_true", help="show every append by itself instead of folding runs")
    leaf.add_argument("--at", type=int, default=None, metavar="SEQ", help="show the state after this seq instead")
    _json(leaf, "print one JSON object per record, or the state as one")
    leaf = make_leaf(leaves, "tail", "a live session's records as they come, until it ends")
    leaf.set_defaults(run=tail.run)
    leaf.add_argument("session", metavar="SESSION", help="the session's id")
    leaf.add_argument("--from-start", action="store_true", help="begin with what is in the log already")
    _json(leaf, "print one JSON object per record")
    add_store(leaf)
    leaf = make_leaf(leaves, "verify", "whether a session's log keeps every promise: 0 yes, 1 no, 2 cannot be read")
    leaf.set_defaults(run=verify.run)
    _session(leaf)
    _json(leaf)
    leaf = make_leaf(leaves, "audio", "a call as a WAV: caller left, assistant right, as it was heard")
    leaf.set_defaults(run=audio.run)
    _session(leaf)
    leaf.add_argument("-o", "--out", type=Path, default=Path("call.wav"), metavar="FILE", help="where to write it")
    leaf.add_argument("--generated", action="store_true", help="all that was generated, heard or not")
    leaf.add_argument("--response", default=None, metavar="ID", help="one response only; the start of its id will do")
    leaf = make_leaf(leaves, "stats", "latencies, interruptions, overlap, talk and silence of one call")
    leaf.set_defaults(run=stats.run)
    _session(leaf)
    _json(leaf)
    leaf = make_leaf(leaves, "diff", "where two sessions part, and each turn of both: 0 alike, 1 different")
    leaf.set_defaults(run=diff.run)
    leaf.add_argument("a", metavar="A", help="a session of the store, or a .dxlog file")
    leaf.add_argument("b", metavar="B", help="the other one")
    _json(leaf)
    add_store(leaf)
    leaf = make_leaf(leaves, "export", "one session into one file that needs no store to be read")
    leaf.set_defaults(run=carry.run_export)
    _session(leaf)
    leaf.add_argument("-o", "--out", type=Path, required=True, metavar="FILE.dxlog", help="where to write it")
    leaf = make_leaf(leaves, "import", "check an exported file whole, and put its session back to be read")
    leaf.set_defaults(run=carry.run_import)
    leaf.add_argument("path", type=Path, metavar="FILE.dxlog", help="the file")
    leaf.add_argument("--into", default=None, metavar="URL", help="the store to put it in; without it, only check")


def add_sessions(commands: Commands[argparse.ArgumentParser], make_leaf: Leaf) -> None:
    """``duplex-es sessions``."""
    leaf = make_leaf(commands, "sessions", "every session the store knows, and where it stands")
    leaf.set_defaults(run=listing.run)
    leaf.add_argument("--model", default=None, help="only sessions of this model")
    leaf.add_argument(
        "--state", default=None, choices=("waiting", "claimed", "closed"), help="only those in this state"
    )
    leaf.add_argument("--older-than", type=float, default=None, metavar="S", help="only those begun so long ago")
    leaf.add_argument("--error", action="store_true", help="only those in which something failed, and what; reads all")
    leaf.add_argument("--watch", action="store_true", help="again and again, until Ctrl-C")
    leaf.add_argument("--every-s", type=float, default=2.0, help="the pause of --watch")
    _json(leaf, "print one JSON object per session")
    _where(leaf)


def _session(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument(
        "session", nargs="?", default=None, metavar="SESSION", help="its id, or ID#INCARNATION; a file has only one"
    )
    _where(leaf)


def _where(leaf: argparse.ArgumentParser) -> None:
    group = leaf.add_mutually_exclusive_group()
    add_store(group)
    group.add_argument("--file", type=Path, default=None, metavar="X.dxlog", help="an exported file instead of a store")


def _json(leaf: argparse.ArgumentParser, text: str = "print one JSON object instead of a table") -> None:
    leaf.add_argument("--json", action="store_true", help=text)


def add_store(leaf: argparse._ActionsContainer) -> None:
    """``--redis-url``."""
    default = os.environ.get("DUPLEX_ES_REDIS_URL", "redis://127.0.0.1:6379/0")
    leaf.add_argument("--redis-url", default=default, help="the store (DUPLEX_ES_REDIS_URL)")
