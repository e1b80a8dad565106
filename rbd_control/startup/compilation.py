"""Compilation by numba, the slowest step of a start: notifications, and runs ahead of time.

A function is compiled, or loaded from disk, at its first call. Each rehearsal calls the functions
with artificial input and discards the results.
"""

from __future__ import annotations

import gc
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numba.core.event import Event, Listener, install_listener

import rbd_control
from rbd_control.dynamics import Model, frame_placement, inverse_dynamics, kernel_cache
from rbd_control.errors import TrajectoryError

Compiled = Callable[[str, float], None]
"""A callback for the name of a kernel and its compilation time [s]."""

_PROBE = 2**18
"""Size of the test file for writing compiled code to a folder [bytes]; a kernel needs less."""


class CompilationWatch(Listener):
    """Reports compilations, and problems with compiled code on disk, while its context is open.

    A kernel is a function that numba compiles for direct calls from Python.

    Attributes:
        begins: called with the name of each kernel before its compilation. Helpers are compiled as
            parts of kernels and not reported; code that is found on disk is not reported either.
        done: called with the name of each kernel and its compilation time [s].
        warn: called with the warnings of :mod:`~rbd_control.dynamics.kernel_cache`, at most one of
            each kind in a process; None leaves them to Python's ``logging``.
    """

    def __init__(
        self,
        begins: Callable[[str], None] = lambda _name: None,
        done: Compiled = lambda _name, _seconds: None,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        self.begins, self.done, self.warn = begins, done, warn
        self._depth = 0
        self._since = 0.0
        self._collects = False
        self._open = ExitStack()

    @property
    def is_compiling(self) -> bool:
        """Whether numba is compiling a kernel."""
        return self._depth > 0

    def __enter__(self) -> CompilationWatch:
        self._open.enter_context(install_listener("numba:compile", self))
        if self.warn:
            self._open.enter_context(_forwarded(self.warn))
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    def on_start(self, event: Event) -> None:
        """Handle numba's event before the compilation of a function."""
        if self._depth == 0:
            self._since = time.perf_counter()
            self.begins(_name(event))
            # The compiler creates so many objects that the collector would take a tenth of the
            # time. Between two kernels it may run.
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Event) -> None:
        """Handle numba's event after the compilation of a function, successful or not."""
        self._depth -= 1
        if self._depth == 0:
            if self._collects:
                gc.enable()
            self.done(_name(event), time.perf_counter() - self._since)


def watch_compilation(
    begins: Callable[[str], None] = lambda _name: None,
    done: Compiled = lambda _name, _seconds: None,
) -> CompilationWatch:
    """Return a watch that calls functions when numba begins and ends to compile a kernel.

    Use it in a ``with`` statement: ``with watch_compilation(begins, done): ...``.

    Args:
        begins: called with the name of each kernel before its compilation.
        done: called with the name of each kernel and its compilation time [s], after it.
    """
    return CompilationWatch(begins, done)


class _Forward(logging.Handler):
    """Passes on the text of log records."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        self._warn(record.getMessage())


@contextmanager
def _forwarded(warn: Callable[[str], object]) -> Iterator[None]:
    log, forward = logging.getLogger(kernel_cache.__name__), _Forward(warn)
    propagate, log.propagate = log.propagate, False
    log.addHandler(forward)
    try:
        yield
    finally:
        log.removeHandler(forward)
        log.propagate = propagate


def storage() -> Path | None:
    """Return the folder in which compiled code of this package is stored, or will be stored.

    This is the folder of the sources if it can be written or contains compiled code, otherwise
    ``rbd_control`` in NUMBA_CACHE_DIR or in the user's cache folder. The result is None if no
    folder can store the code, so that every start compiles.
    """
    for folder in kernel_cache.folders(Path(kernel_cache.__file__)):
        if any(folder.glob("*.nbc")) or _takes_files(folder):
            sources = Path(rbd_control.__file__).resolve().parent
            return sources if sources in folder.resolve().parents else folder
    return None


def _takes_files(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE))
    except OSError:
        return False
    return True


def _name(event: Event) -> str:
    function = event.data["dispatcher"].py_func
    module = function.__module__.rpartition(".")[2]
    return f"{module}.{function.__name__.lstrip('_')}"


if TYPE_CHECKING:
    from rbd_control.estimation import DetectorParameters
    from rbd_control.simulation import SimulatedArm

LARGE_EFFORT = 1e5
"""Effort limit of the controller in a rehearsal [N·m or N].

It is the largest value that the parameter ``effort_limit`` allows.
"""


def rehearse_intake() -> None:
    """Process artificial joint-state messages, so that the code of the intake is compiled."""
    from rbd_control.joint_states import JointStateIntake

    for velocity_filter in (0.0, 0.02):
        intake = JointStateIntake(("joint",), velocity_filter=velocity_filter)
        intake.accept(1.0, 1.0, ("joint",), [0.0], [0.0], [0.0])


def rehearse_detector(model: Model, parameters: DetectorParameters) -> None:
    """Run all compiled functions of a contact detector.

    An artificial contact is detected and located; then the checks of the model and of the kind of
    the efforts run. Of the parameters, only ``tool_frame`` selects functions; after changes of the
    others, while the detector runs, there is nothing left to compile or to load.

    Args:
        model: the robot.
        parameters: of the detector, per-joint values in the order of the model. Thresholds and
            times are replaced, so that few samples suffice.
    """
    from rbd_control.estimation import ContactDetector
    from rbd_control.estimation.isolation_kernel import least_forces_by_statistic
    from rbd_control.estimation.thresholds import default_contact_thresholds
    from rbd_control.identification import EffortKindJudge, MotionWatch
    from rbd_control.robot.shapes import Surface

    default_contact_thresholds(model)  # needed when a threshold is changed to zero
    step = min(0.005, parameters.maximum_gap)
    # A few samples suffice, because the onset is searched in the samples before the detection.
    hasty = replace(
        parameters,
        settling_time=0.0,
        onset_debounce=10.0 * step,
        observer_gain=(100.0,),
        contact_threshold=(0.01,),
        collision_threshold=(1.0,),
        implausible_effort=1000.0,
        default_effort_limit=1e6,
    )
    # One point of a surface suffices; for the other links the places along their middle are used.
    last, up = np.array([model.bodies - 1], np.intp), np.array([[0.0, 0.0, 1.0]])
    detector = ContactDetector(model, hasty, surface=Surface(last, 0.1 * up, up, np.ones(1)))
    rest, zero = np.zeros(model.nq), np.zeros(model.nv)
    strong = np.full(model.nv, 2.0) / np.array(parameters.for_joints("effort_gain", model.nv))
    for k in range(1000):
        if detector.update(k * step, rest, zero, strong).contact:
            break
    detector.tool_wrench()
    detector.set_parameters(hasty)
    detector.update((k + 1) * step, rest, None, None)
    frame_placement(model, rest, model.joint_links[-1])
    watch = MotionWatch(10.0)
    for k in range(1000):
        watch.add(0.01 * k, rest, zero, strong)
    watch.remarks(detector)
    judge = EffortKindJudge(model, parameters)
    for k in range(200):
        judge.add(0.01 * k, rest, zero, strong)
    row, one = zero[None, :], np.ones(1)  # the check of the first seconds calls it
    least_forces_by_statistic(row, row, row, np.eye(model.nv), one, one, one.copy())


# Long: one call for each compiled function.
def rehearse_controller(model: Model) -> None:
    """Run all compiled functions of a controller of this arm, also those of disabled features."""
    from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
    from rbd_control.control.kernels import close_behind, largest_share
    from rbd_control.control.loop_fit import DelayFit, Record, momentum

    rest, zero = np.zeros(model.nq), np.zeros(model.nv)
    # A start requires enough torque for the weight; 0 means the limit of the description.
    described = np.isfinite(model.effort_limit) & (model.effort_limit > LARGE_EFFORT)
    enough = tuple(np.where(described, 0.0, LARGE_EFFORT).tolist())
    for adaptive in (False, True):
        parameters = ControllerParameters(
            effort_limit=enough,
            velocity_limit=(1.0,),
            adaptive=adaptive,
            tank_capacity=1.0,
            stretch_to_limits=adaptive,
            friction_model="coulomb_viscous",
            stop_time=0.001,
        )
        controller = PassivityController(model, parameters)
        stamps = count(1)

        def see(
            v: float = 0.0,
            controller: PassivityController = controller,
            stamps: count[int] = stamps,
        ) -> None:
            for _ in range(3):  # enough joint states to be compared with each other
                controller.update(0.001 * next(stamps), rest, zero + v, effort=zero)
                controller.energy.balance(zero)

        controller.start(0.0, rest, zero)
        controller.law.damping(rest)
        # Effort limits so low that the torque is cut.
        controller.set_parameters(replace(parameters, effort_limit=(1.0,)))
        see()
        for seconds in (1.0, 0.1, 0.1):  # the last is one of a stream
            with suppress(TrajectoryError):
                point = TrajectoryPoint(rest.tolist(), time_from_start=seconds)
                controller.set_trajectory(model.joint_names, [point])
            see()
        controller.set_contact_force(model.joint_links[-1], np.array((0.0, 0.0, 1.0)))
        controller.modes.order("retract")
        see()
        see(0.5)
        controller.modes.order("float")
        see(0.5)
        controller.modes.fault("rehearsal")
        see(0.5)
    inverse_dynamics(model, rest, zero, zero)
    close_behind(rest, 0.0, zero, zero, zero.copy(), zero.copy())
    largest_share(zero, zero, zero + 1.0)
    momentum(model.packed, rest, zero)
    times = 0.001 * np.arange(40.0)
    fit = DelayFit(Record(times, times, times, times, times), 0.01)
    while not fit.step():
        pass
    fit.result()


def rehearse_arm(arm: SimulatedArm) -> None:
    """Push a simulated arm and simulate one period, so that its code is compiled.

    Args:
        arm: the arm, which must not be used afterwards.
    """
    arm.push(arm.model.joint_links[-1], (1.0, 0.0, 0.0))
    arm.step()
    assert arm.contacts
