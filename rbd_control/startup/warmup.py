"""Short runs of all compiled code that the nodes and the commands use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.weakest_push import weakest_pushes_in
from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.estimation import DetectorParameters
from rbd_control.identification import RecordedMotion, calibrate
from rbd_control.joint_states import JointBlock
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording
from rbd_control.playback.replay import replay
from rbd_control.simulation import HalfSpace, SimulatedArm, Sphere, arm7_urdf
from rbd_control.startup.compilation import (
    CompilationWatch,
    rehearse_arm,
    rehearse_controller,
    rehearse_detector,
    rehearse_intake,
)
from rbd_control.startup.prompt_end import end_with_parent
from rbd_control.startup.standard_streams import one_thread_in_children

Array = NDArray[np.float64]
Step = tuple[str, Callable[[], object]]

BESIDE = ("passivity controller", "simulated arm")
"""Steps that compile for as long as all others together; few functions are in both halves."""


def steps() -> Iterator[Step]:
    """Yield the name and the function of each step of ``rbd-control warmup``, without running it.

    Each function, called without arguments, runs one part of the compiled code. Compiled code does
    not depend on the robot, so one arm suffices.
    """
    model = Model.from_urdf(arm7_urdf())
    yield "joint states", rehearse_intake
    yield "contact detector", partial(rehearse_detector, model, DetectorParameters())
    for parameters, choice in _alternatives():
        yield f"contact detector, {choice}", partial(rehearse_detector, model, parameters)
    yield "passivity controller", partial(rehearse_controller, model)
    yield "simulated arm", partial(_rehearse_arm, model)
    yield "replay", partial(_replay, model)
    yield "calibrate", partial(_calibrate, model)
    motion = _motion(model)
    yield "check", partial(weakest_pushes_in, model, DetectorParameters(), [motion])
    yield "excite", partial(inverse_dynamics, model, motion.q, motion.v, motion.v)


def usable_cores() -> int:
    """Return the number of processor cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_beside(*names: str, told: Connection | None = None) -> SpawnProcess:
    """Start a process that runs steps of the warm-up, and so stores the code that it compiles.

    The process ends with this process.

    Args:
        names: names of the steps, see :func:`steps`.
        told: receives the compilation times of the functions of each step [s].
    """
    process = get_context("spawn").Process(target=_run_beside, args=(names, told), daemon=True)
    with one_thread_in_children():
        process.start()
    return process


def _run_beside(names: tuple[str, ...], told: Connection | None) -> None:
    end_with_parent()
    every = dict(steps())
    times = {name: compilation_times(every[name]) for name in names}
    if told is not None:
        told.send(times)


def compilation_times(
    run: Callable[[], object], begins: Callable[[str], None] = lambda _name: None
) -> list[float]:
    """Return the compilation time of each kernel that is compiled during a call of ``run`` [s].

    Args:
        run: called without arguments.
        begins: called with the name of each kernel before its compilation.
    """
    times: list[float] = []
    with CompilationWatch(begins, lambda _kernel, seconds: times.append(seconds)):
        run()
    return times


def _rehearse_arm(model: Model) -> None:
    obstacles = (
        Sphere((9.0, 0.0, 0.0), 0.1),
        HalfSpace((0.0, 0.0, -9.0), (0.0, 0.0, 1.0)),
    )
    rehearse_arm(SimulatedArm(model, obstacles=obstacles))


def _replay(model: Model) -> None:
    replay(_recording(_motion(model), model), model, DetectorParameters())


def _calibrate(model: Model) -> None:
    calibrate([_motion(model)], model)


def _alternatives() -> Iterator[tuple[DetectorParameters, str]]:
    """Yield parameters with each non-default choice, and its name.

    These are the observers, the kinds of effort, the friction models and the tool wrench. Only the
    tool wrench has functions of its own at present; another choice with such functions is compiled
    here as well.
    """
    for item in fields(DetectorParameters):
        for choice in item.metadata["choices"]:
            if choice != item.default:
                yield replace(DetectorParameters(), **{item.name: choice}), f"{item.name} {choice}"
    link = Model.from_urdf(arm7_urdf()).joint_links[-1]
    yield replace(DetectorParameters(), tool_frame=link), "tool wrench"


def _motion(model: Model) -> RecordedMotion:
    """Return half a minute of motion in which every joint swings, with noise on the torques."""
    t = 0.01 * np.arange(3000, dtype=np.float64)
    frequency = np.linspace(2.0, 3.0, model.nv)
    angle = np.outer(t, frequency)
    q = 0.4 * np.sin(angle)
    v = 0.4 * np.cos(angle) * frequency
    # One by one: a batch needs the kernel in lanes, which only one of the steps does.
    accelerations = -(frequency**2) * q
    tau = np.array([inverse_dynamics(model, *x) for x in zip(q, v, accelerations, strict=True)])
    noise = np.random.default_rng(0).normal(scale=0.05, size=tau.shape)
    return RecordedMotion("rehearsal", t, q, v, tau + noise)


def _recording(motion: RecordedMotion, model: Model) -> Recording:
    names = model.joint_names
    t = motion.t[:300] + 1.0
    block = JointBlock(t, t, names, motion.q[:300], motion.v[:300], motion.tau[:300] + 50.0)
    parts = [Part(np.arange(len(t)), block)]
    return Recording(
        Path(motion.name), "/joint_states", names, len(t), None, lambda _size: iter([parts])
    )
