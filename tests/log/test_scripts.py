"""Each script keeps its header: what it promises, which keys and arguments it takes, which errors it answers."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from hashlib import sha1
from itertools import takewhile

import pytest
from redis.exceptions import NoPermissionError, NoScriptError, ResponseError

from duplex_es.log import keys, scripts
from duplex_es.log.api import SessionRef
from duplex_es.log.connections import Command, Reply
from duplex_es.log.errors import (
    ConfigurationError,
    Fenced,
    IncarnationMismatch,
    LogError,
    PositionAhead,
    PositionGone,
    SessionExists,
    SessionUnknown,
    TokenRefused,
)
from duplex_es.log.keeping import keeping_of
from duplex_es.log.keys import SessionKeys
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.scripts import Call, Script, Scripts, callable_scripts, library, load_scripts, refused, session_call
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_keeping import given
from duplex_es.testing.log_programs import run_program
from duplex_es.testing.log_stage import LogStage

pytestmark = pytest.mark.unit

SESSION = SessionKeys.of(SessionRef("sess_demo_01", 0))
# Its keys and arguments repeat, so it is called by hand.
REPEATING = "renew"
SINGLE = [script for script in callable_scripts() if script.name != REPEATING]


def local_names(script: Script, source: str) -> dict[int, str]:
    """The names a script gives to ``KEYS[1]``, ``KEYS[2]`` …, by position."""
    found: dict[int, str] = {}
    for names, values in re.findall(r"^local ([\w, ]+) = (.*)$", script.text, re.MULTILINE):
        # One name for each value; a value may be wrapped in tonumber().
        for name, value in zip(names.split(", "), re.split(r", (?=tonumber|KEYS|ARGV)", values), strict=False):
            if match := re.fullmatch(rf"(?:tonumber\()?{source}\[(\d+)\]\)?", value):
                found[int(match[1])] = name
    return found


@pytest.mark.parametrize("script", load_scripts().values(), ids=lambda script: script.name)
def test_a_script_opens_with_its_promise(script: Script) -> None:
    lines = script.text.splitlines()
    assert re.fullmatch(r"-- [A-Z].*\.", lines[0])
    header = list(takewhile(lambda line: line.startswith("--"), lines))
    labels = [match[1] for line in header if (match := re.match(r"-- ([A-Z]{4,}) ", line))]
    assert labels in (["KEYS", "ARGV", "REPLY", "ERRORS"], ["KEYS", "ARGV", "REPLY", "ERRORS", "FLAGS"])
    assert len(lines) <= 100


@pytest.mark.parametrize("script", SINGLE, ids=lambda script: script.name)
def test_a_script_names_its_keys_and_arguments_as_the_header_does(script: Script) -> None:
    renamed = {"input": "in", "output": "out", "input_audio": "in_audio", "output_audio": "out_audio"}
    named = {position: renamed.get(name, name) for position, name in local_names(script, "KEYS").items()}
    expected = dict(enumerate(script.keys, 1))
    if "(KEYS, " in script.text:  # hands all of them on, in the order of the header
        assert {position: expected[position] for position in named} == named
    else:
        assert named == expected
    args = {position: {"next_token": "next"}.get(name, name) for position, name in local_names(script, "ARGV").items()}
    assert args == dict(enumerate(script.args, 1))


@pytest.mark.parametrize("script", callable_scripts(), ids=lambda script: script.name)
def test_a_script_answers_only_the_errors_of_its_header(script: Script) -> None:
    answered = set(re.findall(r"error_reply\('([A-Z]+)", script.text))
    if "refusal(" in script.text:
        answered |= {"UNKNOWN", "FENCED"}
    if "closed_life(" in script.text:
        answered |= {"UNKNOWN", "EXISTS"}
    if "lost_after(" in script.text:
        answered |= {"LOST"}
    assert answered == set(script.errors) - {"none"}


@pytest.mark.parametrize("script", callable_scripts(), ids=lambda script: script.name)
def test_a_script_that_only_reads_says_so(script: Script) -> None:
    commands = "HSET|HDEL|DEL|XADD|XTRIM|ZADD|ZREM|RENAME|PEXPIRE|PUBLISH"
    writing = rf"'({commands})'|fence_off|publish|end_session|forget_doubt"
    assert ("no-writes" in script.flags) == (re.search(writing, script.text) is None)


@pytest.mark.parametrize("script", SINGLE, ids=lambda script: script.name)
def test_a_call_is_put_together_from_the_header(script: Script) -> None:
    call = session_call(script.name, SESSION, "echo", **{name: f"<{name}>" for name in script.args})
    assert list(call.args) == [f"<{name}>" for name in script.args]
    assert len(call.keys) == len(script.keys)
    assert len(set(call.keys)) == len(call.keys)
    assert len({keys.slot(key) for key in call.keys}) == 1
    with pytest.raises(TypeError):
        session_call(script.name, SESSION, "echo", **{name: "" for name in script.args[1:]})
    with pytest.raises(TypeError):
        session_call(script.name, SESSION, "echo", **{name: "" for name in script.args}, other="")


def test_a_queue_needs_its_model() -> None:
    with pytest.raises(TypeError):
        session_call("release", SESSION, incarnation=0, fence=1, known=0, member="", announcement="")


def test_keys_are_handed_on_in_the_order_that_the_ending_expects() -> None:
    order = re.search(r"`keys` are ([\w ]+), in this order", load_scripts()["prelude_heads"].text)
    assert order is not None
    for name in ("close", "expire", "terminate"):
        assert load_scripts()[name].keys == tuple(order[1].split())


def test_every_script_is_in_the_library_under_the_version() -> None:
    assert library().startswith(f"#!lua name={scripts.LIBRARY}\n")
    for script in callable_scripts():
        assert f"function_name='{scripts.LIBRARY}_{script.name}'" in library()


# -- what only running shows -------------------------------------------------------------------------------------------

GUARD = """
local declared = {}
for _, key in ipairs(KEYS) do declared[key] = true end
local real = redis
local function check(command, first, ...)
  command = string.upper(command)
  if command == 'TIME' or command == 'INFO' then return end
  if command == 'PUBLISH' then
    assert(first == 'dx:ready' or declared[first], 'undeclared channel ' .. first)
    return
  end
  if command == 'XINFO' then first = ... end
  assert(declared[first], command .. ' of undeclared key ' .. tostring(first))
  if command == 'DEL' or command == 'EXISTS' then
    for _, key in ipairs({...}) do assert(declared[key], 'undeclared key ' .. key) end
  end
end
local redis = {
  call = function(...) check(...) return real.call(...) end,
  pcall = function(...) check(...) return real.pcall(...) end,
  error_reply = real.error_reply,
}
"""


@pytest.fixture
def fake() -> Iterator[RedisLog]:
    """A log on a fake that knows scripts; functions are switched off, as a managed Redis may do."""
    fakeredis = pytest.importorskip("fakeredis")
    pool = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), protocol=3).connection_pool
    log = RedisLog(lambda purpose: pool.make_connection(), LogSettings(sweep_interval_s=0.05), check=False)
    log.nodes.scripts.uses_functions = False
    yield log


async def abandon_a_claim(log: RedisLog) -> None:
    """What no program can ask for: it takes a worker that died."""
    _, claim = await LogStage.claimed(log, "abandoned")
    session = SessionKeys.of(claim.ref)
    said = {"incarnation": 0, "member": session.member, "announcement": "0 abandoned"}
    for worker, freed in (("another", 0), (claim.worker, 1)):
        call = session_call("abandon", session, claim.model, worker=worker, **said)
        assert await log.nodes.scripts.call(log.nodes.calls, call) == freed


async def reinstate_lost_ones(log: RedisLog) -> None:
    """As above: it takes a store that lost its last moments."""
    attachment, claim = await LogStage.claimed(log, "reinstated")
    session = SessionKeys.of(claim.ref)
    said = {"incarnation": 0, "record": b"r", "lease_ms": 1000, "member": session.member, "publish": "PUBLISH"}
    held = (("a", attachment.generation + 1, "g", b"t"), ("c", claim.fence + 1, "w", b""))
    for kind, number, holder, token in held:
        call = session_call(
            "reinstate",
            session,
            claim.model,
            **said,
            kind=kind,
            number=number,
            holder=holder,
            token=token,
            recovery=b"",
        )
        assert await log.nodes.scripts.call(log.nodes.calls, call) == 0


async def keep_and_erase(log: RedisLog) -> None:
    """What operators do, and no program does."""
    attachment, _ = await LogStage.claimed(log, "kept")
    keeping = keeping_of(log)
    await keeping.terminate(attachment.ref, "erased")
    (life,) = await keeping.lives(attachment.ref.session_id)
    await keeping.replace(life, given(()), given(()), (1, b"state"))
    await keeping.shorten(attachment.ref, 60)
    await keeping.erase(attachment.ref)


async def test_no_script_touches_a_key_it_did_not_declare(  # E31
    fake: RedisLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guarded(name: str) -> tuple[str, str]:
        text = GUARD + scripts.shared_text() + load_scripts()[name].text
        return text, sha1(text.encode()).hexdigest()

    called: set[str] = set()
    command = Scripts.command

    def recorded(self: Scripts, call: Call) -> Command:
        called.add(call.name)
        assert len({keys.slot(key) for key in call.keys}) == 1
        return command(self, call)

    monkeypatch.setattr(scripts, "_evaluated", guarded)
    monkeypatch.setattr(Scripts, "command", recorded)
    for seed in range(30):
        await run_program(seed, 80, fake, MemoryLog(LogSettings()), f"p-{uuid.uuid4().hex}")
    await abandon_a_claim(fake)
    await reinstate_lost_ones(fake)
    assert await fake.expire_unclaimed(-3600.0)
    await keep_and_erase(fake)
    assert called == {script.name for script in callable_scripts()}
    await fake.close_connections()


async def test_scripts_run_where_functions_are_forbidden(fake: RedisLog) -> None:
    await fake.connect()
    await run_program(1, 120, fake, MemoryLog(LogSettings()), "p")
    await fake.close_connections()


class Node:
    """A node that answers from a script of its own: what was sent, and what it says."""

    def __init__(self, *answers: Reply) -> None:
        self.answers = list(answers)
        self.sent: list[Command] = []

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        self.sent += commands
        return [self.answers.pop(0) for _ in commands]


CALL = Call("confirm", ["head"], ["0", "1"])
SCRIPT_COUNT = len(callable_scripts())


async def test_the_library_is_loaded_where_it_is_missing() -> None:
    node = Node([], b"dx2")
    await Scripts().load(node.exchange)
    assert [command[:2] for command in node.sent] == [("FUNCTION", "LIST"), ("FUNCTION", "LOAD")]


async def test_the_library_is_left_alone_where_it_is_the_same() -> None:
    node = Node([{b"library_name": b"dx2", b"library_code": library().encode()}])
    await Scripts().load(node.exchange)
    assert len(node.sent) == 1


async def test_another_text_under_the_same_version_is_replaced() -> None:
    node = Node([[b"library_name", b"dx2", b"library_code", b"#!lua name=dx2\n"]], b"dx2")
    await Scripts().load(node.exchange)
    assert node.sent[1][:3] == ("FUNCTION", "LOAD", "REPLACE")


@pytest.mark.parametrize(
    "refusal", [NoPermissionError("no permission"), ResponseError("unknown command 'FUNCTION', with args")]
)
async def test_without_functions_the_same_texts_are_evaluated(refusal: ResponseError) -> None:
    node = Node(refusal, *[b"sha"] * SCRIPT_COUNT)
    called = Scripts()
    await called.load(node.exchange)
    assert called.command(CALL)[0] == "EVALSHA"
    assert [command[:2] for command in node.sent[1:]] == [("SCRIPT", "LOAD")] * SCRIPT_COUNT


@pytest.mark.parametrize("lost", [ResponseError("Function not found"), NoScriptError("No matching script")])
async def test_a_node_that_lost_the_scripts_gets_them_again(lost: ResponseError) -> None:
    node = Node(lost, [], b"dx2", 1)
    assert await Scripts().call(node.exchange, CALL) == 1


async def test_a_library_that_does_not_compile_is_said_to_be_broken() -> None:
    with pytest.raises(LogError, match="compile"):
        await Scripts().load(Node([], ResponseError("Error compiling function: user_function:1")).exchange)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (ResponseError("FENCED 8"), Fenced),
        (ResponseError("UNKNOWN session"), SessionUnknown),
        (ResponseError("EXISTS open"), SessionExists),
        (ResponseError("TOKEN refused"), TokenRefused),
        (ResponseError("INCARNATION 2"), IncarnationMismatch),
        (ResponseError("GONE 7"), PositionGone),
        (ResponseError("AHEAD 7"), PositionAhead),
        (NoPermissionError("this user has no permissions to run the 'fcall' command"), ConfigurationError),
        (ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"), LogError),
    ],
)
async def test_an_error_reply_becomes_the_error_it_stands_for(reply: ResponseError, error: type[LogError]) -> None:
    assert type(refused(reply)) is error
    with pytest.raises(error):
        await Scripts().call(Node(reply).exchange, CALL)
