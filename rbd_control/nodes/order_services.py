"""Services of the controller node, by which an operator orders a hold, a retreat and so on."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import isnan
from pathlib import Path
from threading import Thread

import yaml
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.task import Future
from std_srvs.srv import Trigger

from rbd_control.control import Estimates, PassivityController
from rbd_control.control.reactions import ENDING, ORDERS
from rbd_control.errors import InputError
from rbd_control.node_parameters import NodeParameters
from rbd_control.ros.callback_errors import describe
from rbd_control.ros.managed_node import ManagedNode

LARGEST_FILE = 1_000_000
"""Maximum size of a file with estimates [bytes]; one link takes about 300."""


class EstimatesWriter:
    """Writes estimates to one file, in a thread, so that no torque waits for a disk.

    Args:
        path: the file; empty if the parameter ``estimates`` names none.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread: Thread | None = None

    def write(self, estimates: Estimates, done: Callable[[str, bool], None]) -> None:
        """Start a thread that writes the file, and return at once.

        Args:
            estimates: inertial parameters and friction to write.
            done: called by the thread at the end with a message for the operator, and with whether
                the file was written.

        Raises:
            InputError: without a path, and while the last file is still being written.
        """
        if not self._path:
            raise InputError("parameter estimates names no file to write to")
        if self._thread is not None and self._thread.is_alive():
            raise InputError(f"{self._path} is still being written")

        def work() -> None:
            try:
                write_estimates(self._path, estimates)
            except Exception as error:  # The sender of the order waits for the answer.
                is_expected = isinstance(error, InputError)
                done(str(error) if is_expected else describe(error), False)
            else:
                done(f"written to {self._path}", True)

        self._thread = Thread(target=work, name="estimates", daemon=True)
        self._thread.start()


def write_estimates(path: str, estimates: Estimates) -> None:
    """Write estimates to a YAML file completely or not at all.

    The file is written under another name in the same folder and renamed, so that the old file
    stays complete until the new file is. A symbolic link is refused, because the new file
    would replace the link, and not the file that it names.

    Raises:
        InputError: naming the file and the reason, if the file cannot be written, is a symbolic
            link, or would be larger than :data:`LARGEST_FILE`.
    """
    text = yaml.safe_dump(estimates.to_dict(), sort_keys=False)
    if len(text) > LARGEST_FILE:
        raise InputError(f"cannot write {path}: {len(text)} bytes; at most {LARGEST_FILE}")
    target = Path(path)
    if target.is_symlink():
        raise InputError(f"cannot write {path}: it is a symbolic link; name the file itself")
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        # The file gets the permissions of a new file, or those of the old file.
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w") as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError, ValueError):  # nothing is left after success
            unfinished.unlink()


def read_estimates(path: str) -> Estimates | None:
    """Read the file of the parameter ``estimates``; return None if it does not exist.

    Raises:
        InputError: if the file cannot be read, does not contain estimates, or is larger than
            :data:`LARGEST_FILE`.
    """
    try:
        size = Path(path).stat().st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read estimates from {path}: {error.strerror}") from error
    if size > LARGEST_FILE:
        raise InputError(
            f"cannot read estimates from {path}: {size} bytes; at most {LARGEST_FILE} are read"
        )
    return Estimates.load(path)


class OrderServices:
    """Offers the services by which an operator gives orders to the controller.

    They are the orders of :mod:`~rbd_control.control.reactions` (``~/hold``, ``~/float``,
    ``~/retract``, ``~/slow``), ``~/cancel``, ``~/resume``, ``~/measure_loop`` and
    ``~/save_estimates``, of type ``std_srvs/srv/Trigger``; docs/control.md describes them. All are
    refused while the node is not active. The text of the answer is the new mode or another result
    (of ``~/resume``, ``~/measure_loop``, ``~/save_estimates``, and a ``~/cancel`` that only
    discards a trajectory being planned), or the reason of the refusal. ``~/measure_loop`` answers
    at the end of the measurement; call :meth:`tell` for it.

    Args:
        node: the node.
        controller: returns the controller of the configured node.
        before_stop: called with the name of an order that stops the arm, before it is executed,
            and with ``fault`` before a resumption from mode safe. It returns whether it has
            discarded a trajectory that was being planned.
        obstacle: returns the reason why ``~/resume`` is forbidden, such as another publisher of
            torque; an empty text if it is allowed.
        estimates: path of the file for ``~/save_estimates``; with an empty text the service is
            refused.
    """

    def __init__(
        self,
        node: ManagedNode[NodeParameters],
        controller: Callable[[], PassivityController],
        before_stop: Callable[[str], bool],
        obstacle: Callable[[], str],
        estimates: str,
    ) -> None:
        self._node, self._controller = node, controller
        self._before_stop, self._obstacle = before_stop, obstacle
        self._estimates = EstimatesWriter(estimates)
        for name in ORDERS:
            order = partial(self._order, name)
            self._offer(name, self._stopping(name, order) if name in ENDING else order)
        self._offer("cancel", self._stopping("cancel", lambda: controller().modes.cancel()))
        self._offer("resume", self._resume)
        self._measured: Future | None = None
        """The answer that the sender of ~/measure_loop waits for."""
        # A callback group of its own: the other callbacks continue while a file is written, or the
        # loop is measured.
        for what, answer in (
            ("save_estimates", self._save_estimates),
            ("measure_loop", self._measure_loop),
        ):
            node.create_service(
                Trigger, f"~/{what}", answer, callback_group=MutuallyExclusiveCallbackGroup()
            )

    def _offer(self, what: str, order: Callable[[], str | None]) -> None:
        self._node.offer(what, lambda: order() or f"in {self._controller().mode}")

    def _order(self, name: str) -> None:
        self._controller().modes.order(name)

    def _stopping(self, what: str, order: Callable[[], None]) -> Callable[[], str | None]:
        def stop() -> str | None:
            discarded = self._before_stop(what)
            try:
                order()
            except InputError:
                if what != "cancel" or not discarded:
                    raise
                return "the trajectory being planned is discarded"
            return None

        return stop

    def _resume(self) -> str:
        obstacle = self._obstacle()
        if obstacle:
            raise InputError(f"cannot resume: {obstacle}")
        if self._controller().mode == "safe":
            self._before_stop("fault")  # discards trajectories that were sent before the fault
        return self._controller().resume(time.monotonic())

    async def _save_estimates(
        self, _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Write the file and then answer; the node processes joint states meanwhile."""
        try:
            self._require_active()
            adaptive = self._controller().law.adaptive
            if adaptive is None:
                raise InputError("nothing is learned: parameter adaptive is false")
            written: Future = Future(executor=self._node.executor)
            self._estimates.write(
                adaptive.averaged_estimates,  # a push just before the order changes it little
                lambda message, success: written.set_result((message, success)),
            )
            response.message, response.success = await written
        except InputError as error:
            response.message = str(error)
        self._node.get_logger().info(f"save_estimates: {response.message}")
        return response

    async def _measure_loop(
        self, _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Measure the loop and answer at the end; the node processes joint states meanwhile."""
        try:
            self._require_active()
            self._controller().loop.begin()
            self._measured = Future(executor=self._node.executor)
            response.message, response.success = await self._measured
        except InputError as error:
            response.message = str(error)
        self._node.get_logger().info(f"measure_loop: {response.message}")
        return response

    def tell(self) -> None:
        """Answer the request ``~/measure_loop`` if the measurement has ended; call it often."""
        waiting = self._measured
        if waiting is None:
            return
        controller = self._controller()
        if not self._node.is_active:
            self._measured = None
            waiting.set_result(("the controller was deactivated", False))
        elif not controller.loop.is_running:
            self._measured, result = None, controller.loop.result
            assert result is not None
            lines = result.lines() + result.parameter_lines(controller.parameters.resonance)
            waiting.set_result(("\n".join(lines), not isnan(result.delay)))

    def _require_active(self) -> None:
        if not self._node.is_active:
            raise InputError("the controller is not active")
