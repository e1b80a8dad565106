"""The error handling of the command line: from exceptions to exit codes and lines on stderr.

An exception that ends a command gives one line at most, and its traceback if ``--debug`` is given.

Exit codes:
    0: done.
    1: done, but without a reliable result (a recording without a verdict, a silent detector).
    2: an input is wrong, or an output cannot be written; one line gives the problem and the remedy.
    3: an internal error; one line.
    130: interrupted by SIGINT, SIGTERM or SIGHUP, without a message. Commands that run until a
        signal comes, such as ``view``, end with 0 or 1 instead.
    141: the reader of standard output has closed it, without a message.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from rbd_control import __version__
from rbd_control.errors import ModelWarning, RbdControlError
from rbd_control.files.input_files import concerned, reason
from rbd_control.startup.standard_streams import say
from rbd_control.wording import abridged, printable

_MARK = "rbd_control_standard_output"
"""Attribute that marks an exception that was raised by writing to standard output."""


@contextmanager
def marked_output() -> Iterator[None]:
    """Return a context in which every ``OSError`` from writing to ``sys.stdout`` is marked.

    :func:`is_of_output` finds the mark. The error itself is raised unchanged.
    """
    with redirect_stdout(cast("TextIO", _MarkedStream(sys.stdout))):
        yield


def is_of_output(error: BaseException | None) -> bool:
    """Return whether an exception was raised by writing to standard output.

    It is recognized only if it was raised inside :func:`marked_output`. None gives False.
    """
    return error is not None and _MARK in vars(error)


class _MarkedStream:
    """Wraps a text stream and marks the errors of writing to it.

    Args:
        stream: the wrapped stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; return the number of characters."""
        with _marking():
            return self._stream.write(text)

    def flush(self) -> None:
        """Write the buffered text."""
        with _marking():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _marking() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        setattr(error, _MARK, True)
        raise


NO_RESULT = 1
BAD_INPUT = 2
INTERNAL_ERROR = 3
INTERRUPTED = 130
BROKEN_PIPE = 141

MESSAGE_LENGTH = 600
"""Maximum length of an error or a warning, without the path of the file before it [characters].

Enough for the names of twenty links.
"""

_PACKAGE = Path(__file__).resolve().parents[1]


def _show(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line on stderr, without the line of source code that raised it."""
    say(f"rbd-control: warning: {abridged(str(message), MESSAGE_LENGTH)}")


def run_command(  # noqa: PLR0911 - one exit code for each way a command may end
    run: Callable[[], int], *, debug: bool = False
) -> int:
    """Run a command, convert its exceptions to one line on stderr, and return its exit code.

    A :class:`~rbd_control.errors.RbdControlError` is a bad input (code 2). An ``OSError`` that
    names a file means that the file cannot be written, because reading a file raises an error of
    this package; an ``OSError`` from writing to standard output means the same of standard output
    (code 2, or 141 if its reader has closed it). Any other ``Exception``, such as a
    ``TimeoutError``, is an internal error (code 3). A ``KeyboardInterrupt`` gives 130.

    Args:
        run: the command; it returns its exit code.
        debug: print the traceback of an error before its one line, and the warnings of libraries,
            which are hidden otherwise.

    Raises:
        SystemExit: if the command raises it, unless the cause is a closed standard output.
    """
    try:
        with warnings.catch_warnings(), marked_output():
            if not debug:
                # Warnings of libraries are for developers; stderr gets one line for the user.
                warnings.simplefilter("ignore")
                # Warnings about the robot description are for the user and are shown.
                warnings.simplefilter("always", ModelWarning)
                warnings.showwarning = _show
            code = run()
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as end:
        # rich raises this for a broken pipe.
        if _has_no_reader(end.__context__):
            return BROKEN_PIPE
        raise
    except Exception as error:
        if _has_no_reader(error):
            return BROKEN_PIPE
        if debug:
            traceback.print_exc()
        if isinstance(error, RbdControlError):
            return refuse(error.message, error.path)
        where = _unwritten(error)
        if where:
            return refuse(f"cannot be written: {reason(error)}", where)
        complain(_internal(error), concerned(error))
        return INTERNAL_ERROR


def _has_no_reader(error: BaseException | None) -> bool:
    """Return whether an exception means that the reader of standard output has closed it."""
    return isinstance(error, BrokenPipeError) and is_of_output(error)


def _unwritten(error: Exception) -> str:
    """Return which output could not be written; empty if the exception has another cause."""
    if not isinstance(error, OSError):
        return ""
    if is_of_output(error):
        return "standard output"
    return str(error.filename or "")


def refuse(message: str, path: str = "") -> int:
    """Print one line about a bad input on stderr, and return its exit code :data:`BAD_INPUT`.

    Args:
        message: the problem and its remedy.
        path: path of the invalid file; empty if the problem is not in a file.
    """
    complain(message, path)
    return BAD_INPUT


def complain(message: str, path: str) -> None:
    """Print one line on stderr: ``rbd-control: PATH: MESSAGE``.

    Args:
        message: the text, of which the middle is left out beyond 200 characters.
        path: path of the file that the message concerns; empty if it concerns none.
    """
    where = f"{printable(path)}: " if path else ""
    say(f"rbd-control: {where}{abridged(' '.join(message.split()), MESSAGE_LENGTH)}")


def _internal(error: Exception) -> str:
    """Return the message for an internal error, with the line of source code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    frame = (own or frames)[-1]
    return (
        f"internal error of rbd_control {__version__}: {type(error).__name__} in "
        f"{Path(frame.filename).name}:{frame.lineno} ({reason(error)}); please report it with "
        f"the output of --debug"
    )


@contextmanager
def progress_bar(what: str, total: int, *columns: Any) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr, if it is a terminal.

    Args:
        what: the work, shown before the bar.
        total: number of steps.
        columns: columns after the bar, of ``rich.progress``; its usual ones by default.

    Yields:
        A function that takes the arguments of ``rich.progress.Progress.update``.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    shown = (TextColumn("{task.description}"), BarColumn(), *columns) if columns else ()
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield partial(bar.update, bar.add_task(what, total=total))
