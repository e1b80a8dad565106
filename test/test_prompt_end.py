"""A signal during the start ends the process at once, in any state of its main thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

SWALLOWING = """
from rbd_control.startup.prompt_end import PromptEnd

def interrupt(number, frame):
    raise KeyboardInterrupt

PromptEnd(7, interrupt).start()
while True:
    try:
        print("ready", flush=True)
        while True:
            pass
    except BaseException:
        pass
"""

# A call into C code that is interrupted by no signal, as one into LLVM.
IN_C = """
import ctypes, signal
from rbd_control.startup.prompt_end import PromptEnd
PromptEnd(7).start()
spin = ctypes.CDLL(None).qsort
numbers = (ctypes.c_int * 50_000_000)(*range(64))
compare = ctypes.cast(ctypes.CDLL(None).strcmp, ctypes.c_void_p)
print("ready", flush=True)
spin(numbers, len(numbers), 4, compare)
print("sorted", flush=True)
"""

CALLED_OFF = """
import time
from rbd_control.startup.prompt_end import PromptEnd, call_off

seen = []
with PromptEnd(7, lambda number, frame: seen.append(number), grace=0.2) as prompt_end:
    assert prompt_end.is_armed
    print("ready", flush=True)
    while not seen:
        time.sleep(0.01)
    call_off()
    assert not prompt_end.is_armed
    time.sleep(0.5)
    print("called off", flush=True)
    while len(seen) < 2:
        time.sleep(0.01)
    time.sleep(0.5)
print("orderly", flush=True)
"""

FORKED = """
import os, signal, sys, time
from rbd_control.startup.prompt_end import PromptEnd
PromptEnd(7, lambda number, frame: None, grace=0.1).start()
child = os.fork()
if child == 0:
    sys.stdout.close()
    os.close(1), os.close(2)
    time.sleep(60.0)
os.kill(child, signal.SIGTERM)
time.sleep(0.5)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print("ready", flush=True)
while True:
    pass
"""


def start(program: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    try:
        output, _ = process.communicate(timeout=30.0)
    finally:
        process.kill()  # one that did not end would take a core from all other tests
    return process.returncode, output


@pytest.mark.parametrize(
    ("program", "number"),
    [
        (SWALLOWING, signal.SIGINT),
        (IN_C, signal.SIGTERM),
        (FORKED, signal.SIGHUP),
    ],
    ids=["swallowing", "in C", "signal for a child before"],
)
def test_it_ends(program: str, number: int) -> None:
    begin = time.monotonic()
    code, output = end(start(program), number)
    assert code == 7
    assert output in ("", "ready\n")
    assert time.monotonic() - begin < 20.0


def test_no_signal_ends_the_process_once_that_is_called_off() -> None:
    process = start(CALLED_OFF)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "called off\n"
    assert end(process, signal.SIGINT) == (0, "orderly\n")
