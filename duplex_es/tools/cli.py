"""The argument tree of ``duplex-es``; every subcommand is one module with a ``run``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from . import completion, demo, doctor, models, talk, up
from .archive.commands import add_archive_commands
from .bench import command as bench
from .errors import ToolError
from .lifetime import INTERRUPTED, run_interruptible
from .log.arguments import add_log, add_sessions, add_store
from .planning import command as plan

DEFAULT_PORT = 8099
DEFAULT_URL = f"ws://127.0.0.1:{DEFAULT_PORT}/v1/realtime"
DEFAULT_MODEL = "cascade"


class HelpWithDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Help that shows a default only where there is one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False, []) else super()._get_help_string(action)


def build_parser() -> argparse.ArgumentParser:
    """The whole tree. Each leaf sets ``run`` to its coroutine function and ``interrupted`` to its code for Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="duplex-es", description="Full-duplex voice sessions, kept in an event log: run, talk, look."
    )
    parser.add_argument("--version", action="version", version=f"duplex-es {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_up(commands)
    _add_talk(commands)
    _add_demo(commands)
    _add_bench(commands)
    add_log(commands, _leaf)
    add_sessions(commands, _leaf)
    add_archive_commands(commands, _leaf)
    _add_plan(commands)
    _add_doctor(commands)
    _add_models(commands)
    _add_completion(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Trouble is one line on stderr and code 1."""
    args = build_parser().parse_args(arguments)
    try:
        code = run_interruptible(args.run(args))
    except ToolError as error:
        print(f"duplex-es: {error}", file=sys.stderr)
        return 1
    return args.interrupted if code == INTERRUPTED else code


Commands = argparse._SubParsersAction


def _leaf(commands: Commands[argparse.ArgumentParser], name: str, text: str) -> argparse.ArgumentParser:
    leaf = commands.add_parser(name, help=text, description=text, formatter_class=HelpWithDefaults)
    leaf.set_defaults(interrupted=INTERRUPTED)
    return leaf


def _add_up(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(commands, "up", "run a store, gateways and workers on this machine until Ctrl-C")
    leaf.set_defaults(run=up.run, interrupted=0)
    leaf.add_argument("--gateways", type=_positive, default=1, help="gateways; they listen on PORT, PORT+1, ...")
    leaf.add_argument("--workers", type=_positive, default=1, help="workers")
    leaf.add_argument("--model", default=DEFAULT_MODEL, help="the model of every worker")
    leaf.add_argument("--slots", type=_positive, default=8, help="sessions that one worker takes at a time")
    leaf.add_argument("--host", default="127.0.0.1", help="address the gateways listen on")
    leaf.add_argument("--port", type=int, default=DEFAULT_PORT, help="first gateway's port; 0 for any free ones")
    leaf.add_argument(
        "--metrics-port",
        type=int,
        default=0,
        help="where Prometheus finds the first gateway on 127.0.0.1; the other gateways and the workers follow; 0 for "
        "any free ones",
    )
    leaf.add_argument("--redis-url", default=None, help="use this Redis or Valkey instead of an embedded one")
    leaf.add_argument(
        "--log-level", default="info", choices=("debug", "info", "warning", "error"), help="how much is logged"
    )
    leaf.add_argument("--chat-url", default=None, help="an OpenAI-compatible chat server that writes cascade's answers")
    leaf.add_argument(
        "--worker-option", action="append", default=[], metavar="FLAG", help="one more argument for every worker"
    )
    leaf.add_argument(
        "--pages",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="serve the web pages; without either, only where nobody else can reach them",
    )


def _add_talk(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(commands, "talk", "ask a running service a recorded question and keep the answer")
    leaf.set_defaults(run=talk.run)
    leaf.add_argument(
        "url", nargs="*", default=[DEFAULT_URL], metavar="URL", help="gateways of one service, tried in order"
    )
    leaf.add_argument("--wav", type=Path, required=True, help="the question: 16-bit PCM")
    leaf.add_argument(
        "--out", type=Path, default=Path("out/talk"), help="folder for answer.wav, transcript.txt, events.jsonl"
    )
    leaf.add_argument("--model", default=DEFAULT_MODEL, help="the model to ask")
    leaf.add_argument("--instructions", default=None, help="what the model should keep in mind")
    leaf.add_argument("--commit", action="store_true", help="end the turn explicitly, for a model that cannot hear it")
    leaf.add_argument("--timeout-s", type=float, default=30.0, help="seconds to wait for the answer after the question")


def _add_demo(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(
        commands, "demo", "a spoken question through two gateways, answered, transcribed back and shown in the log"
    )
    leaf.set_defaults(run=demo.run)
    leaf.add_argument("--calm", action="store_true", help="let every gateway live")
    leaf.add_argument("--wav", type=Path, default=demo.QUESTION, help="the question: 16-bit PCM")
    leaf.add_argument(
        "--out", type=Path, default=Path("out/demo"), help="folder for answer.wav, transcript.txt, events.jsonl"
    )
    leaf.add_argument("--model", default=DEFAULT_MODEL, help="the model to ask")
    leaf.add_argument("--redis-url", default=None, help="use this Redis or Valkey instead of an embedded one")
    leaf.add_argument("--timeout-s", type=float, default=30.0, help="seconds to wait for each answer")


def _add_bench(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(commands, "bench", "many callers in real time against a running service, and what they experienced")
    leaf.set_defaults(run=bench.run)
    leaf.add_argument(
        "url", nargs="*", default=[DEFAULT_URL], metavar="URL", help="gateways of one service; callers spread over them"
    )
    leaf.add_argument("--model", default=DEFAULT_MODEL, help="the model to call")
    leaf.add_argument("--sessions", type=_positive, default=10, help="callers at the same time")
    leaf.add_argument("--duration-s", type=float, default=30.0, help="how long they call, after the ramp")
    leaf.add_argument("--ramp-s", type=float, default=2.0, help="the time over which they begin")
    leaf.add_argument("--wav", type=Path, default=None, help="the question: 16-bit PCM; without it, babble")
    leaf.add_argument("--question-ms", type=_positive, default=1_600, help="how long the babble is")
    leaf.add_argument("--rate-hz", type=_positive, default=16_000, help="samples of the babble in a second")
    leaf.add_argument("--chunk-ms", type=_positive, default=80, help="sound in one append")
    leaf.add_argument("--pause-ms", type=int, default=500, help="between an answer and the next question")
    leaf.add_argument("--vad", action="store_true", help="let the server hear where a turn ends; no commits")
    leaf.add_argument("--continuous", action="store_true", help="for models that answer all the time: wait for nothing")
    leaf.add_argument("--cut-every", type=int, default=0, metavar="N", help="cut each caller's N-th connection midway")
    leaf.add_argument("--timeout-s", type=float, default=30.0, help="how long a question may stay unanswered")
    leaf.add_argument("--extra-body", default=None, metavar="JSON", help="goes into every session as extra_body")
    leaf.add_argument("--redis-url", default=None, help="the service's store: also read its timestamps (same machine)")
    leaf.add_argument("--json", action="store_true", help="print the report as JSON instead of a table")
    leaf.add_argument("--out", type=Path, default=None, metavar="FILE", help="also write the report as JSON")
    leaf.add_argument("--plot", type=Path, default=None, metavar="FILE", help="draw it, for example to out.png")
    leaf.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _add_plan(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(commands, "plan", "how many gateways, workers and store nodes so many calls need, and why")
    leaf.set_defaults(run=plan.run)
    leaf.add_argument("--sessions", type=_positive, required=True, help="calls at the same time, at the peak")
    leaf.add_argument("--model", default=DEFAULT_MODEL, help="the model they call")
    leaf.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another value for one of the assumptions"
    )
    leaf.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def _add_doctor(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(commands, "doctor", "whether the store can keep the promises, and what to change")
    leaf.set_defaults(run=doctor.run)
    leaf.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_store(leaf)


def _add_models(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(commands, "models", "the models installed here, or those a running service offers")
    leaf.set_defaults(run=models.run)
    leaf.add_argument("url", nargs="?", default=None, metavar="URL", help="a gateway to ask instead of this Python")


def _add_completion(commands: Commands[argparse.ArgumentParser]) -> None:
    leaf = _leaf(commands, "completion", "a script that completes commands and flags in your shell")
    leaf.set_defaults(run=completion.runner(build_parser))
    leaf.add_argument("shell", choices=completion.SHELLS, help="where to put it: see the guide to operating")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


if __name__ == "__main__":
    sys.exit(main())
