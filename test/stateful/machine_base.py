"""Beginning and end of each step of the controller's state machine."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import reject
from hypothesis.stateful import RuleBasedStateMachine, initialize

from rbd_control.control import PassivityController
from rbd_control.control.planner import PlannedTrajectory
from rbd_control.errors import ParameterError, RbdControlError
from stateful.drawing import (
    setups,
)
from stateful.history import Stretch
from stateful.promises import BrokenPromise, check
from stateful.rig import Rig
from stateful.setup import Setup

LONGEST_STEP = 20.0
"""Computing time after which something in a step must be hanging [s]."""


def _hangs(signum: int, frame: object) -> None:
    raise BrokenPromise("every_call_returns", "No call hangs.", "")


class MachineBase(RuleBasedStateMachine):
    """Starts a controller with its arm and detector, and checks all promises after each rule."""

    controller_type: ClassVar[type[PassivityController]] = PassivityController
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Promises that are not looked at."""
    only: ClassVar[frozenset[str]] = frozenset()
    """The only promises that are looked at; empty for all."""
    examples: ClassVar[int] = 0
    samples: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        signal.signal(signal.SIGVTALRM, _hangs)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_STEP)
        self.rig: Rig = None  # type: ignore[assignment]  # made by begin
        self._checked = 0
        self._planned: PlannedTrajectory | None = None

    def teardown(self) -> None:
        """The example is over."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)

    # --- Beginning and end of a step ---------------------------------------------------------

    @initialize(setup=setups())
    def begin(self, setup: Setup) -> None:
        """Start the controller; without an effort limit of every joint it must refuse."""
        type(self).examples += 1
        try:
            Rig(setup, self.controller_type)
        except ParameterError:  # the drawn parameters do not go together
            setup = replace(setup, parameters={})
        if setup.arm.flaw == "no effort":
            self._must_refuse(setup)
            given = {"effort_limit": tuple(setup.arm.strength.tolist())}
            setup = replace(setup, parameters={**setup.parameters, **given})
        self.rig = Rig(setup, self.controller_type)
        try:
            self.rig.start()
        except RbdControlError as error:
            self._keep("good_joint_states_let_it_start", False, str(error))
            reject()
        self.rig.run(2)
        self._look()

    def _must_refuse(self, setup: Setup) -> None:
        joint = setup.arm.model.joint_names[setup.arm.flawed]
        try:
            Rig(setup, self.controller_type).start()
        except RbdControlError as error:
            self._keep("an_effort_limit_is_needed", joint in str(error), str(error))
        else:
            self._keep("an_effort_limit_is_needed", False, f"it starts without one of {joint}")

    def _look(self) -> None:
        """Hold what happened in this step to the promises."""
        rig = self.rig
        type(self).samples += rig.history.rows - self._checked
        check(Stretch(rig, self._checked), self.ignored, self.only)
        self._checked = rig.history.rows
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_STEP)
        rig.leaves_safe = rig.faulted = False
        rig.earlier_model = rig.controller.law.model

    def _run(self, seconds: float) -> None:
        self.rig.run(max(round(seconds / self.rig.period), 1))
        self._look()

    def _keep(self, name: str, kept: bool, details: str = "") -> None:
        """A promise about the answer to an order."""
        if not kept and name not in self.ignored and (not self.only or name in self.only):
            raise BrokenPromise(name, "", details)

    def _order(self, order: Callable[..., Any], *arguments: Any) -> bool:
        """Give an order; whether it is taken. It may be refused only by an error of the package.

        No order but resume leads out of mode safe.
        """
        before = self.rig.controller.mode
        try:
            order(*arguments)
            taken = True
        except RbdControlError:
            taken = False
        mode = self.rig.controller.mode
        if mode != "hold":  # another order ends the stop before a retreat, even between samples
            self.rig.orders.pauses.clear()
        self._keep("only_resume_leaves_safe", before != "safe" or mode == "safe", str(order))
        self._keep("a_refused_order_changes_nothing", taken or mode == before, str(order))
        return taken
