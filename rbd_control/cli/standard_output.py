"""Standard output whose errors can be distinguished from other errors of the operating system.

A full disk, a closed pipe, a network without answer and a worker that has ended all raise
``OSError``. Inside :func:`marked_output`, the errors that writing to standard output raises are
marked, and :func:`is_of_output` recognizes them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO, cast

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
