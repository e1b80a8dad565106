"""Damaged CSV files: recordings and labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Change = Callable[[np.random.Generator, str], str | bytes]


def _lines(change: Callable[[np.random.Generator, list[str]], list[str]]) -> Change:
    """Return a change of the text from a change of its lines."""

    def changed(rng: np.random.Generator, text: str) -> str:
        return "\n".join(change(rng, text.split("\n")))

    return changed


def _cell(value: str) -> Change:
    """Return a change that puts ``value`` into one cell below the header, or into many."""

    def changed(rng: np.random.Generator, text: str) -> str:
        lines = text.split("\n")
        column = int(rng.integers(7))
        every = rng.random() < 0.3
        chosen = range(1, len(lines) - 1) if every else [int(rng.integers(1, len(lines) - 1))]
        for k in chosen:
            cells = lines[k].split(",")
            if column < len(cells):
                cells[column] = value
            lines[k] = ",".join(cells)
        return "\n".join(lines)

    return changed


def _header(new: str) -> Change:
    return lambda rng, text: new + text[text.index("\n") :]


def time_in(function: Callable[[np.ndarray], np.ndarray], form: str) -> Change:
    """Return a change of the times."""

    def changed(rng: np.random.Generator, text: str) -> str:
        header, *rows = text.strip().split("\n")
        times = function(np.array([float(row.split(",")[0]) for row in rows]))
        lines = [
            ",".join([form.format(t), *row.split(",")[1:]])
            for t, row in zip(times, rows, strict=True)
        ]
        return "\n".join([header, *lines]) + "\n"

    return changed


CELLS = ("", "nan", "inf", "1e308", "1e400", "abc", "x" * 5000, '"', "1;5", "0x1F", "\x00", "é")

CHANGES: tuple[Change, ...] = (
    *(_cell(cell) for cell in CELLS),
    _lines(lambda rng, lines: lines[1:]),
    _lines(lambda rng, lines: [*lines[:5], ",".join(["1"] * int(rng.integers(1, 99))), *lines[5:]]),
    _lines(lambda rng, lines: [line[: int(rng.integers(1, 40))] for line in lines]),
    _lines(lambda rng, lines: [line.replace(",", ";") for line in lines]),
    _lines(lambda rng, lines: [lines[0], *[line.replace(".", ",") for line in lines[1:]]]),
    _lines(lambda rng, lines: [lines[0], "", " ", "", *lines[1:], "", ""]),
    _lines(lambda rng, lines: [lines[0]]),
    _lines(lambda rng, lines: [*lines[:9], '"', *lines[9:]]),
    lambda rng, text: text.replace("\n", " "),
    lambda rng, text: "\ufeff" + text,
    lambda rng, text: text.encode("utf-16"),
    lambda rng, text: text.replace("elbow", "épaule").encode("latin-1"),
    lambda rng, text: text.encode()[:3000] + b"\x00" * 500 + text.encode()[3000:],
    lambda rng, text: "x" * 3_000_000,
    lambda rng, text: ",".join(f"position/j{k}" for k in range(60_000)) + "\n",
    _header(""),
    _header("t,q_0,q_1,v_0,v_1,e_0,e_1"),
    _header("time,position/shoulder,position/elbow,velocity/shoulder,effort/elbow,effort/x,y"),
    _header("time,position/shoulder,position/shoulder,velocity/a,velocity/b,effort/a,effort/b"),
    _header("time,position/a\x1b[31m\x07,position/b,velocity/a,velocity/b,effort/a,effort/b"),
    time_in(lambda t: t[::-1], "{:.6f}"),
    time_in(lambda t: 0.0 * t, "{:.6f}"),
    time_in(lambda t: -t, "{:.6f}"),
    time_in(lambda t: t * 1e300, "{:.6g}"),
    time_in(lambda t: t * 1e-300, "{:.6g}"),
    time_in(lambda t: np.where(t > 0.5, t + 1e9, t), "{:.6f}"),
)

LABELS = (
    "", "begin\n1\n", "begin,end\n1\n", "begin,end\n2,1\n", "begin,end\nnan,2\n",
    "begin,end\n1,2,3\n", "begin,begin,end\n1,1,2\n", "begin,end,force\n1,2,x\n",
    "begin,end\n0.4,0.9\n0.5,0.6\n", "begin,end\n1e300,1e301\n", "begin;end\n1;2\n",
    "recording,begin,end\n\x1b[31m,1,2\n", '"begin,end\n1,2\n', "begin,end\n" + "x" * 2_000_000,
)  # fmt: skip
