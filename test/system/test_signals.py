"""Signals at any instant: the last command is zero torque, the exit code 0, and no traceback."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from rbd_control.ros.processes import reserved_domain

from .bringup import BringUp, Process
from .controller_setting import (
    COMMANDS,
    NODE,
    PARAMETERS,
    WEIGHT,
    ZERO,
    resting,
    torques,
    wait_for_torque,
)
from .probe import Heard, Probe, Source

PREAMBLE = """
import os, signal
import rclpy
from rclpy.publisher import Publisher

def again():
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)

def waiting(self, *arguments):
    again()
    return wait(self, *arguments)

def given_back(number, handler):
    previous = set_handler(number, handler)
    ends = signal.SIG_IGN, signal.SIG_DFL, signal.default_int_handler
    if number != signal.SIGTSTP and handler in ends:  # SIGTSTP is ignored from the start
        again()
    return previous

def default_handlers():
    set_handler(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)

set_handler, wait = signal.signal, Publisher.wait_for_all_acked
signal.signal, Publisher.wait_for_all_acked = given_back, waiting
rclpy.uninstall_signal_handlers = default_handlers
"""
"""Preamble with signals while it waits for the arm, and while its handlers are given back."""


@pytest.fixture(scope="module")
def source(probe: Probe) -> Source:
    return probe.stream(resting())


def start(bring_up: BringUp, space: str, preamble: str = "") -> Process:
    """Start a controller, forked if it has a preamble.

    Without a preamble the executable itself is started, as signals come until the very end of the
    process. The places of a preamble lie before that end.
    """
    return bring_up.start(
        NODE,
        PARAMETERS,
        ["-r", f"{COMMANDS}:={space}/commands", "-r", f"__node:={space}"],
        preamble=preamble,
        is_forked=bool(preamble),
    )


def assert_ended_well(probe: Probe, process: Process, commands: Heard) -> None:
    assert process.wait() == 0, process.output
    wait_for_torque(probe, commands, ZERO)
    assert "Traceback" not in process.output
    assert "failed" not in process.output


@pytest.mark.usefixtures("source")
def test_more_signals_while_it_ends(bring_up: BringUp, probe: Probe) -> None:
    """The zero torque is sent whatever comes between it and the first signal."""
    commands = torques(probe, "during")
    process = start(bring_up, "during", PREAMBLE)
    wait_for_torque(probe, commands, WEIGHT)
    process.signal(signal.SIGINT)
    assert_ended_well(probe, process, commands)


@pytest.mark.usefixtures("source")
def test_bursts_of_signals(bring_up: BringUp, probe: Probe) -> None:
    """Dozens of SIGINT, SIGTERM and SIGHUP, the first at any instant of the run."""
    chance = random.Random(59)
    spaces = [f"burst_{k}" for k in range(2)]
    processes = [start(bring_up, space) for space in spaces]
    for space, process in zip(spaces, processes, strict=True):
        commands = torques(probe, space)
        wait_for_torque(probe, commands, WEIGHT)
        time.sleep(chance.uniform(0.0, 0.05))
        numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
        while process.is_running and len(commands):
            process.signal(chance.choice(numbers))
            time.sleep(chance.uniform(0.0, 0.004))
        assert_ended_well(probe, process, commands)


@pytest.mark.parametrize(("phase", "stride"), [("end", 13), ("start", 53)])
def test_a_signal_at_each_line(bring_up: BringUp, phase: str, stride: int) -> None:
    """Of the code that activates the controller, and of that which ends it.

    Every ``stride``-th line, to save time; by hand, ``python -m system.signal_sweep`` takes all.
    """
    with reserved_domain() as domain:
        ended = bring_up.run(
            *(str(domain), phase, str(stride)),
            module="system.signal_sweep",
            folder=Path(__file__).parents[1],
            timeout=600.0,
        )
    assert ended.returncode == 0, ended.stderr
    outcomes = json.loads(ended.stdout.splitlines()[-1])
    assert len(outcomes) > 5
    for outcome in outcomes:
        assert outcome["code"] == 0, outcome
        assert outcome["ends with zero"], outcome
    assert "Traceback" not in ended.stderr
    if phase == "end":
        assert all(outcome["sent"] for outcome in outcomes)
    else:
        # Before the controller had started, nothing at all was sent.
        assert outcomes[0]["sent"] == 0
