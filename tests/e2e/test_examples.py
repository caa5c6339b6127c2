"""Every example does what it says, as a person runs it: a process of its own, against ``duplex-es up``."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import wave
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.support.processes import free_port
from tests.support.up import Up, up
from workers.g711 import encode

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
AUDIO = EXAMPLES / "audio"
LIMIT_S = 180.0


@pytest.fixture(scope="module")
def cascade_up() -> Iterator[Up]:
    with up("cascade") as service:
        yield service


async def example(name: str, *arguments: str | Path, env: dict[str, str] | None = None) -> Process:
    command = [str(EXAMPLES / name), *map(str, arguments)]
    environment = {**os.environ, **(env or {}), "PYTHONUNBUFFERED": "1"}
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, cwd=ROOT, env=environment
    )


async def output(process: Process) -> str:
    """What the process printed, once it has ended well."""
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(LIMIT_S):
            while line := await process.stdout.readline():
                lines.append(line.decode())
            assert await process.wait() == 0, "".join(lines)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError(f"still running after {LIMIT_S:g} s: {''.join(lines)}") from None
    return "".join(lines)


def summary_in(said: str) -> Any:
    """The JSON after the lines of progress."""
    return json.loads(said[said.index("\n[") :])


def length_s(path: Path) -> float:
    with wave.open(str(path)) as file:
        return file.getnframes() / file.getframerate()


async def test_the_barge_in_client_interrupts_the_cascade_and_keeps_both_answers(
    cascade_up: Up, tmp_path: Path
) -> None:
    audio = ("--question-wav", AUDIO / "story.wav", "--interrupt-wav", AUDIO / "interrupt.wav")
    shape = ("--preset", "cascade", "--model", "cascade", "--url", cascade_up.urls[0], "--output-dir", tmp_path)
    said = await output(await example("barge_in_client.py", *audio, *shape, "--listen-s", "0.5"))
    summary = summary_in(said)

    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert [row["status"] for row in summary] == ["cancelled", "completed"]
    assert all(row["text"] for row in summary)
    for number, row in enumerate(summary, 1):
        assert row["wav"] == str(tmp_path / f"response_{number}_{row['status']}.wav")
        assert length_s(Path(row["wav"])) == pytest.approx(row["audio_s"], abs=0.001)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {"response.created", "response.done", "playback.acknowledged"} <= {event["type"] for event in events}
    assert all(event["_client_received_at_s"] > 0 for event in events)


TURNS = [
    {"on": "audio_ms", "at": at, "do": [{"audio_ms": ms, "text": text}, {"finish": True}]}
    for at, ms, text in ((3_000, 4_000, "The first answer."), (5_000, 1_000, "The second answer."))
]


@pytest.mark.parametrize(
    ("preset", "model"), [("minicpmo_4_5", "openbmb/MiniCPM-o-4_5"), ("personaplex", "nvidia/personaplex-7b-v1")]
)
async def test_the_barge_in_client_speaks_to_published_models_in_their_own_shape(
    tmp_path: Path, preset: str, model: str
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(TURNS))
    options = (f"profile={preset}", f"script={script}")
    flags = [flag for option in options for flag in ("--worker-option=--model-option", f"--worker-option={option}")]
    with up("scripted", *flags) as service:
        audio = ("--question-wav", AUDIO / "question.wav", "--interrupt-wav", AUDIO / "interrupt.wav")
        shape = ("--preset", preset, "--model", model, "--ref-audio", AUDIO / "okay.wav", "--output-dir", tmp_path)
        process = await example("barge_in_client.py", *audio, *shape, "--url", service.urls[0], "--listen-s", "0.2")
        summary = summary_in(await output(process))

    assert "The first answer." in summary[0]["text"]
    assert any("second" in row["text"] and row["status"] == "completed" for row in summary[1:]), summary


async def test_the_echo_says_back_what_it_heard(tmp_path: Path) -> None:
    with up("echo") as service:
        back = tmp_path / "back.wav"
        said = await output(
            await example("echo_conversation.py", AUDIO / "name.wav", "--url", service.urls[0], "--out", back)
        )
    assert str(back) in said
    assert 0.5 < length_s(back) < length_s(AUDIO / "name.wav") + 1.5


async def test_an_answer_survives_its_gateway() -> None:
    with up("scripted", gateways=2) as service:
        process = await example("resume_after_drop.py", "--url", *service.urls)
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        assert "kill that gateway now" in line
        service.kill_gateway(service.urls[0])
        said = await output(process)
    assert "going on through " + service.urls[1] in said
    assert "8.0 of 8.0 s heard, 1 resume(s), 0 event(s) missing, 0 twice" in said


async def test_a_tool_is_called_and_its_result_spoken(cascade_up: Up) -> None:
    said = await output(await example("tool_calls.py", "--url", cascade_up.urls[0]))
    assert "the model calls get_weather({'city': 'Paris'})" in said
    assert "24 degrees" in said.split("it says:")[1]


async def test_a_written_conversation_remembers(cascade_up: Up) -> None:
    questions = ("My name is Ada.", "What is my name?")
    said = await output(await example("text_only.py", *questions, "--url", cascade_up.urls[0]))
    assert [line for line in said.splitlines() if line.startswith("> ")] == [f"> {each}" for each in questions]
    assert "Ada" in said.splitlines()[-1]


class Phone:
    """Twilio's end of a Media Stream: plays in real time, and sends a mark back when it is reached, or cleared."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: list[dict[str, Any]] = []
        self.played_bytes = 0
        self._queue: list[dict[str, Any]] = []
        self._news = asyncio.Event()

    async def tell(self, event: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"event": event, "streamSid": "MZ1", **fields}))

    async def speak(self, pcm16k: np.ndarray) -> None:
        """Say 16 kHz samples as mu-law at 8 kHz, in real time."""
        ulaw = encode("g711_ulaw", pcm16k[::2].astype(np.int16))
        for at in range(0, len(ulaw), 160):
            await self.tell("media", media={"payload": base64.b64encode(ulaw[at : at + 160]).decode()})
            await asyncio.sleep(0.02)

    async def listen(self) -> None:
        async for text in self.socket:
            message = json.loads(text)
            self.heard.append(message)
            self._news.set()
            if message["event"] == "clear":
                held, self._queue = self._queue, []
                for each in held:
                    if each["event"] == "mark":
                        await self.tell("mark", mark=each["mark"])
            else:
                self._queue.append(message)

    async def play(self) -> None:
        while True:
            if not self._queue:
                await asyncio.sleep(0.005)
                continue
            message = self._queue.pop(0)
            if message["event"] == "mark":
                await self.tell("mark", mark=message["mark"])
            else:
                size = len(base64.b64decode(message["media"]["payload"]))
                await asyncio.sleep(size / 8_000)
                self.played_bytes += size

    async def until(self, event: str) -> None:
        async with asyncio.timeout(30):
            while not any(message["event"] == event for message in self.heard):
                self._news.clear()
                await self._news.wait()


def samples(name: str) -> np.ndarray:
    with wave.open(str(AUDIO / name)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


@asynccontextmanager
async def bridge(url: str) -> AsyncIterator[tuple[int, Process]]:
    port = free_port()
    process = await example("twilio_bridge.py", "--port", str(port), "--url", url)
    assert process.stdout is not None
    assert b"taking calls" in await asyncio.wait_for(process.stdout.readline(), 30)
    try:
        yield port, process
    finally:
        process.kill()
        await process.wait()


async def test_a_telephone_call_is_answered_and_can_be_interrupted(cascade_up: Up) -> None:
    async with bridge(cascade_up.urls[0]) as (port, process), connect(f"ws://127.0.0.1:{port}/") as socket:
        phone = Phone(socket)
        work = [asyncio.create_task(phone.listen()), asyncio.create_task(phone.play())]
        await phone.tell("connected", protocol="Call", version="1.0.0")
        await phone.tell("start", start={"streamSid": "MZ1", "callSid": "CA1"})
        silence = np.zeros(16_000, np.int16)
        await phone.speak(np.concatenate([samples("story.wav"), silence, silence]))
        await phone.until("mark")
        await phone.speak(np.concatenate([samples("interrupt.wav"), silence, silence]))
        await phone.until("clear")
        await phone.tell("stop")
        assert process.stdout is not None
        lines = [(await asyncio.wait_for(process.stdout.readline(), 30)).decode() for _ in range(2)]
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    assert lines[-1].strip() == "MZ1: over"
    sent = sum(len(base64.b64decode(each["media"]["payload"])) for each in phone.heard if each["event"] == "media")
    assert 0 < phone.played_bytes < sent, "all of it was played: nothing was cut"


@pytest.fixture(scope="module")
def installed_parrot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plug-in as ``pip install`` leaves it, in a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--target", str(target))
    source = tmp_path_factory.mktemp("source")
    for name in ("parrot.py", "pyproject.toml"):
        (source / name).write_bytes((EXAMPLES / "model_plugin" / name).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


async def test_a_model_of_somebody_elses_is_found_and_converses(
    installed_parrot: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{installed_parrot}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with up("parrot") as service:
        said = await output(
            await example("text_only.py", "Polly wants a cracker", "--model", "parrot", "--url", service.urls[0])
        )
    assert said.splitlines()[-1] == "< Polly wants a cracker "


def test_a_model_of_somebody_elses_keeps_the_promises_of_any_model() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    folder = EXAMPLES / "model_plugin"
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), str(folder / "test_parrot.py")],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


def test_every_example_is_in_the_list_and_explains_itself() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for path in sorted(EXAMPLES.glob("*.py")):
        assert f"[{path.name}]" in listed
        shown = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr
        assert "usage:" in shown.stdout
