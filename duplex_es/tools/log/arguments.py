"""The part of the argument tree that reads the log."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from . import audio, carry, diff, erase, fork, listing, replay, report, show, stats, tail, verify
from .archived import add_archive, add_keys

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
    _store_or_archive(leaf)
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
    _store_or_archive(leaf)
    leaf = make_leaf(leaves, "report", "the timeline of a call as one page, which opens without a service")
    leaf.set_defaults(run=report.run)
    _session(leaf)
    leaf.add_argument("--html", type=Path, required=True, metavar="FILE.html", help="where to write it")
    leaf.add_argument("--audio", action="store_true", help="with its sound, which makes it large")
    leaf = make_leaf(leaves, "export", "one session into one file that needs no store to be read")
    leaf.set_defaults(run=carry.run_export)
    _session(leaf)
    leaf.add_argument("-o", "--out", type=Path, required=True, metavar="FILE.dxlog", help="where to write it")
    leaf = make_leaf(leaves, "import", "check an exported file whole, and put its session back to be read")
    leaf.set_defaults(run=carry.run_import)
    leaf.add_argument("path", type=Path, metavar="FILE.dxlog", help="the file")
    leaf.add_argument("--into", default=None, metavar="URL", help="the store to put it in; without it, only check")
    _add_replay(leaves, make_leaf)
    _add_fork(leaves, make_leaf)
    _add_erase(leaves, make_leaf)


def _add_replay(leaves: Commands[argparse.ArgumentParser], make_leaf: Leaf) -> None:
    text = "carry a recorded call out again: 0 as recorded, 1 otherwise"
    leaf = make_leaf(leaves, "replay", text)
    leaf.set_defaults(run=replay.run)
    _session(leaf)
    leaf.add_argument("--to", default=None, metavar="URL", help="say it to the service at this ws:// URL")
    leaf.add_argument("--model", default=None, metavar="NAME", help="let this model answer it, in this process")
    leaf.add_argument(
        "--model-option", action="append", default=[], metavar="NAME=VALUE", help="as a worker takes it; repeatable"
    )
    leaf.add_argument(
        "--check", action="store_true", help="decide everything again and stop at the first decision that is another"
    )
    leaf.add_argument("--speed", type=float, default=1.0, help="times the recorded pace; 0: wait only for frames")
    leaf.add_argument("--step", action="store_true", help="one thing at a time: on Enter, or as soon as it is its turn")
    leaf.add_argument("--from-seq", type=int, default=None, metavar="SEQ", help="go on after this frame, in a fork")
    leaf.add_argument("--patience-s", type=float, default=10.0, help="how long --to waits for a recorded frame")
    leaf.add_argument("--id", default=None, metavar="ID", help="the new session's id; without it, a random one")
    _into(leaf)
    leaf.add_argument("-o", "--out", type=Path, default=None, metavar="FILE.dxlog", help="also write the new call here")
    _json(leaf)


def _add_fork(leaves: Commands[argparse.ArgumentParser], make_leaf: Leaf) -> None:
    leaf = make_leaf(leaves, "fork", "a new session that goes on from one frame of another, and a ticket to resume it")
    leaf.set_defaults(run=fork.run)
    _session(leaf)
    leaf.add_argument("--at", type=int, required=True, metavar="SEQ", help="the last frame that both share")
    leaf.add_argument("--id", default=None, metavar="ID", help="the new session's id; without it, a random one")
    _into(leaf)
    _json(leaf)


def _add_erase(leaves: Commands[argparse.ArgumentParser], make_leaf: Leaf) -> None:
    leaf = make_leaf(leaves, "erase", "take what was said out of the store, the archive and the exports, for good")
    leaf.set_defaults(run=erase.run)
    leaf.add_argument("session", nargs="?", default=None, metavar="SESSION", help="its id: all its lives; or ID#LIFE")
    leaf.add_argument("--caller", default=None, metavar="WHO", help="every session of this caller instead")
    leaf.add_argument(
        "--audio", default=None, choices=("caller", "assistant", "both"), help="only this speaker's sound"
    )
    leaf.add_argument("--since", default=None, metavar="TIME", help="only from here on: unix seconds or ISO 8601")
    leaf.add_argument("--until", default=None, metavar="TIME", help="and up to here")
    leaf.add_argument("--reason", default="", metavar="TEXT", help="why; the tombstone keeps it")
    leaf.add_argument("--by", default=None, metavar="NAME", help="who asked; without it, the user of this machine")
    leaf.add_argument("--dry-run", action="store_true", help="only say what would be erased")
    leaf.add_argument("--yes", action="store_true", help="do not ask")
    leaf.add_argument("--close", action="store_true", help="end a session that still goes on first")
    leaf.add_argument("--rewrite-files", action="store_true", help="then have the store rewrite its files, and wait")
    leaf.add_argument("--archive-only", action="store_true", help="leave the store alone")
    leaf.add_argument(
        "--archive",
        default=os.environ.get("DUPLEX_ES_ARCHIVE"),
        metavar="URL",
        help="the archive of this store (DUPLEX_ES_ARCHIVE)",
    )
    add_keys(leaf)
    add_store(leaf)
    _json(leaf)


def _into(leaf: argparse.ArgumentParser) -> None:
    leaf.add_argument(
        "--into", default=None, metavar="URL", help="the store of the service that goes on; without it, --redis-url"
    )


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


def _store_or_archive(leaf: argparse.ArgumentParser) -> None:
    group = leaf.add_mutually_exclusive_group()
    add_store(group)
    add_archive(group)
    add_keys(leaf)


def _where(leaf: argparse.ArgumentParser) -> None:
    group = leaf.add_mutually_exclusive_group()
    add_store(group)
    group.add_argument("--file", type=Path, default=None, metavar="X.dxlog", help="an exported file instead of a store")
    add_archive(group)
    add_keys(leaf)


def _json(leaf: argparse.ArgumentParser, text: str = "print one JSON object instead of a table") -> None:
    leaf.add_argument("--json", action="store_true", help=text)


def add_store(leaf: argparse._ActionsContainer) -> None:
    """``--redis-url``."""
    default = os.environ.get("DUPLEX_ES_REDIS_URL", "redis://127.0.0.1:6379/0")
    leaf.add_argument("--redis-url", default=default, help="the store (DUPLEX_ES_REDIS_URL)")
