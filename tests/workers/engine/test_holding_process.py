"""The process that owns memory, as a process: it is there when engines are not, and never longer than its worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from workers.engine.holding import Holding
from workers.engine.holding_process import Holder

pytestmark = pytest.mark.unit

PATIENCE_S = 60.0


@pytest.fixture
def holder() -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "workers.engine.holding_process", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    theirs.close()
    yield ours, process
    ours.close()
    assert process.wait(PATIENCE_S) == 0


def line_to(control: socket.socket) -> socket.socket:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one:
        socket.send_fds(control, [b"+"], [one.fileno()])
    return other


def fill_and_die(line: socket.socket) -> None:
    holding = Holding(line)
    holding.make("weights", 1000, "cpu").view[:4] = b"kept"
    holding.mark("weights", "full")
    os.kill(os.getpid(), signal.SIGKILL)


def test_memory_of_a_process_that_was_killed_is_found_by_the_next(
    holder: tuple[socket.socket, subprocess.Popen[bytes]],
) -> None:
    control, _ = holder
    line = line_to(control)
    engine = multiprocessing.get_context("fork").Process(target=fill_and_die, args=(line,))
    engine.start()
    line.close()
    engine.join(PATIENCE_S)
    assert engine.exitcode == -signal.SIGKILL
    found = Holding(line_to(control)).find("weights")
    assert found is not None and found.mark == "full" and found.view[:4] == b"kept"


def test_it_ends_with_its_worker_once_no_engine_works_in_its_memory(
    holder: tuple[socket.socket, subprocess.Popen[bytes]],
) -> None:
    control, process = holder
    line = Holding(line_to(control))
    line.make("weights", 1000, "cpu")
    control.close()
    assert line.find("weights") is not None
    assert process.poll() is None
    line.close()
    assert process.wait(PATIENCE_S) == 0


def test_an_engine_that_does_not_end_does_not_keep_it_for_ever() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line = Holding(line_to(ours))
    ours.close()
    Holder(theirs, linger_s=0.05).run()
    line.close()
