"""Prompt end of the process on SIGINT, SIGTERM and SIGHUP during a start.

Python runs signal handlers between two bytecodes of the main thread. While LLVM compiles, no
handler runs for seconds, and an exception that a handler raises inside the compiler or inside rclpy
may be discarded there. The C part of every handler, however, writes the number of the signal into a
pipe (:func:`signal.set_wakeup_fd`); a thread that reads the pipe ends the process after a grace
period.

This module imports only the standard library, so that an executable can use it before slow imports.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.connection import wait
from types import FrameType
from typing import Any, NoReturn

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Signals that request the end of a process; SIGHUP is sent when its terminal is closed."""

GRACE = 0.5
"""Time after a signal in which the main thread can end the process [s]; then a thread does."""

Handler = Callable[[int, FrameType | None], Any]

_IGNORED = signal.SIG_IGN

_current: PromptEnd | None = None
_forking = threading.local()


def end_with_parent() -> None:
    """Let this process end with its parent, which Ctrl-C ends first, and not before it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait_for_end() -> None:
        parent = parent_process()
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()


def end_now(code: int) -> NoReturn:
    """End the process at once without cleanup; use it only if no cleanup is needed.

    Standard output and error are flushed.

    Args:
        code: exit code of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    _exit(code)


@contextmanager
def signals_held() -> Iterator[None]:
    """Block the signals of :data:`SIGNALS` in this thread until the context is left.

    Use it while several handlers change. Otherwise a signal could arrive while only some of the
    handlers have been replaced. Python runs the handlers of pending signals before
    ``pthread_sigmask`` returns.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def call_off() -> None:
    """Disarm the present :class:`PromptEnd` of this process, if there is one.

    See :meth:`PromptEnd.call_off`.
    """
    if _current is not None:
        _current.call_off()


class PromptEnd:
    """Ends this process soon after a signal of :data:`SIGNALS`, until it is disarmed.

    It is armed by :meth:`start`, or as a context. A later instance in the same process replaces an
    earlier one. Outside of the main thread it has no effect, because Python handles signals in the
    main thread only.

    Args:
        code: exit code of the process.
        on_signal: handler of the signals from the start on, also after :meth:`call_off`. It runs
            when the main thread executes Python code; None ends the process.
        grace: time from a signal to the end of the process, whatever the main thread does [s];
            None means :data:`GRACE`.
    """

    def __init__(
        self, code: int, on_signal: Handler | None = None, grace: float | None = None
    ) -> None:
        self._code = code
        self._grace = GRACE if grace is None else grace
        self._on_signal = on_signal or (lambda _number, _frame: end_now(code))
        self._lock = threading.Lock()
        self._off = threading.Event()
        self._previous: dict[int, Any] = {}
        self._pipe: int | None = None

    def __enter__(self) -> PromptEnd:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def is_armed(self) -> bool:
        """Whether a signal ends the process after ``grace``, whatever the main thread does."""
        return self._pipe is not None

    def start(self) -> None:
        """Install the signal handlers, and start the thread that ends the process after a signal.

        It replaces another instance that is active. A SIGHUP that ``nohup`` has set to be ignored
        stays ignored. Outside the main thread, where Python permits no handlers, nothing happens.
        """
        global _current
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            if number != getattr(signal, "SIGHUP", None) or signal.getsignal(number) != _IGNORED:
                self._previous[number] = signal.signal(number, self._on_signal)
        if _current is not None:
            # stop() must restore the handlers from before the replaced instance, not its own.
            self._previous.update(_current._previous)
            _current.call_off()
            _current._previous = {}
        _current = self
        reading, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

    def stop(self, *, ignore: bool = False) -> None:
        """Disarm this object and restore the handlers from before :meth:`start`.

        Args:
            ignore: ignore the signals from now on, instead of restoring their handlers.
        """
        self.call_off()
        for number, handler in self._previous.items():
            # None stands for a handler that Python did not install and cannot restore.
            signal.signal(number, _IGNORED if ignore or handler is None else handler)
        self._previous = {}

    def call_off(self) -> None:
        """Stop ending the process on signals; from now on only the handler processes them.

        After this method has returned, earlier signals no longer end the process.
        """
        with self._lock:
            self._off.set()
            pipe, self._pipe = self._pipe, None
        if pipe is not None:
            signal.set_wakeup_fd(-1)
            os.close(pipe)

    def _watch(self, reading: int) -> None:
        # The closed pipe means that call_off() was called.
        while number := os.read(reading, 1):
            if number[0] in SIGNALS and not self._off.wait(self._grace):
                with self._lock:
                    if not self._off.is_set():
                        _exit(self._code)
        os.close(reading)


def _exit(code: int) -> NoReturn:
    for stream in (1, 2):
        with suppress(OSError):
            if os.isatty(stream):
                os.write(stream, b"\r\x1b[K\x1b[?25h")  # a progress bar hides the cursor
    os._exit(code)


def _before_fork() -> None:
    # Until the child sets its own wake-up pipe, its signals would be written to the parent's pipe.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _in_forked_child() -> None:
    if _current is not None and _current.is_armed:
        signal.set_wakeup_fd(-1)
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_forked_child
    )


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM was received within this context.

    The signal handler raises no exception, because rclpy may discard an exception in a callback.
    The previous handlers are restored at the end of the context. A present
    :class:`PromptEnd` is disarmed, so that it does not end the
    process. Use it in the main thread only.
    """
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {n: signal.signal(n, lambda number, _: came.append(number)) for n in numbers}
    call_off()
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
