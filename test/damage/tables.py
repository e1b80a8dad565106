"""Damaged CSV files: recordings and labels."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from damage import raw, sound

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


def _time(function: Callable[[np.ndarray, np.random.Generator], np.ndarray], form: str) -> Change:
    """Return a change of the times."""

    def changed(rng: np.random.Generator, text: str) -> str:
        header, *rows = text.strip().split("\n")
        times = function(np.array([float(row.split(",")[0]) for row in rows]), rng)
        lines = [
            ",".join([form.format(t), *row.split(",")[1:]])
            for t, row in zip(times, rows, strict=True)
        ]
        return "\n".join([header, *lines]) + "\n"

    return changed


def _shuffled(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(t)


def _jump(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(np.arange(t.size) < t.size // 2, t, t - float(rng.choice([0.02, 0.4, 5.0])))


CELLS = (
    "", " ", "nan", "inf", "-inf", "1e308", "-1e308", "1e400", "abc", "x" * 5000,
    '"', '"1', '"1"', "1,5", "1;5", "0x1F", "1_000", "\x00", "\x1b[31m", "é", "1 2", "=1+1", "TRUE",
)  # fmt: skip
ABSURD = ("1e3", "1e10", "1e30", "1e80", "1e150")
"""Numbers that no sensor measures, small enough to be squared."""

NUMBERED = "t,q_0,q_1,v_0,v_1,e_0,e_1"
ABSURD_CHANGES = tuple(_cell(cell) for cell in ABSURD)
CHANGES: tuple[Change, ...] = (
    *(_cell(cell) for cell in CELLS),
    *ABSURD_CHANGES,
    _lines(lambda rng, lines: lines[1:]),
    _lines(lambda rng, lines: [*lines[:5], ",".join(["1"] * int(rng.integers(1, 99))), *lines[5:]]),
    _lines(lambda rng, lines: [line[: int(rng.integers(1, 40))] for line in lines]),
    _lines(lambda rng, lines: [line.replace(",", ";") for line in lines]),
    _lines(lambda rng, lines: [line.replace(",", ";").replace(".", ",") for line in lines]),
    _lines(lambda rng, lines: [line.replace(",", "\t") for line in lines]),
    _lines(lambda rng, lines: [lines[0], *[line.replace(".", ",") for line in lines[1:]]]),
    _lines(lambda rng, lines: [lines[0], "", " ", "", *lines[1:], "", ""]),
    _lines(lambda rng, lines: [lines[0]]),
    _lines(lambda rng, lines: [lines[0], lines[1]]),
    _lines(lambda rng, lines: [*lines[:9], '"', *lines[9:]]),
    _lines(lambda rng, lines: [lines[0], *[f'"{line}"' for line in lines[1:]]]),
    _lines(lambda rng, lines: ["# comment", *lines]),
    lambda rng, text: text.replace("\n", "\r"),
    lambda rng, text: text.replace("\n", "\r\n"),
    lambda rng, text: text.replace("\n", " "),
    lambda rng, text: "\ufeff" + text,
    lambda rng, text: text.encode("utf-16"),
    lambda rng, text: text.encode("utf-32"),
    lambda rng, text: text.replace("elbow", "épaule").encode("latin-1"),
    lambda rng, text: text.encode()[:3000] + b"\x00" * 500 + text.encode()[3000:],
    lambda rng, text: text + "1," * 30_000_000,
    lambda rng, text: "x" * 3_000_000,
    lambda rng, text: ",".join(f"position/j{k}" for k in range(60_000)) + "\n",
    _header("time"),
    _header(""),
    _header(NUMBERED),
    _header("time,position/shoulder,position/elbow,velocity/shoulder,effort/elbow,effort/x,y"),
    _header("time,position/shoulder,position/shoulder,velocity/a,velocity/b,effort/a,effort/b"),
    _header("time,position/a\x1b[31m\x07,position/b,velocity/a,velocity/b,effort/a,effort/b"),
    _header(",".join(["position/" + "x" * 2000] * 7)),
    _time(lambda t, rng: t * 1e9, "{:.0f}"),
    _time(lambda t, rng: t * 1e6, "{:.0f}"),
    _time(lambda t, rng: t * 1e3, "{:.0f}"),
    _time(lambda t, rng: (t + sound.START) * 1e9, "{:.0f}"),
    _time(lambda t, rng: (t + sound.START) * 1e6, "{:.0f}"),
    _time(lambda t, rng: (t + sound.START) * 1e3, "{:.0f}"),
    _time(lambda t, rng: t[::-1], "{:.6f}"),
    _time(lambda t, rng: 0.0 * t, "{:.6f}"),
    _time(lambda t, rng: 0.0 * t + 5.0, "{:.6f}"),
    _time(lambda t, rng: -t, "{:.6f}"),
    _time(lambda t, rng: np.floor(20.0 * t) / 20.0, "{:.6f}"),
    _time(lambda t, rng: t * 1e300, "{:.6g}"),
    _time(lambda t, rng: t * 1e-300, "{:.6g}"),
    _time(lambda t, rng: np.where(t > 0.5, t + 1e9, t), "{:.6f}"),
    _time(_shuffled, "{:.6f}"),
    _time(_jump, "{:.6f}"),
)


def recording(rng: np.random.Generator, text: str, folder: Path) -> Path:
    """Write a damaged CSV recording."""
    path = folder / "log.csv"
    if rng.random() < 0.25:
        path.write_bytes(raw.any_damage(rng, text.encode())[1])
        return path
    kind = int(rng.integers(len(CHANGES) + 4))
    if kind < len(CHANGES):
        content = CHANGES[kind](rng, text)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    elif kind == len(CHANGES):
        path.mkdir()
    elif kind == len(CHANGES) + 1:
        path.symlink_to("/dev/zero")
    elif kind == len(CHANGES) + 2:
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    return path


LABELS = (
    "", "\n", "begin\n1\n", "begin,end\n1\n", "begin,end\n2,1\n", "begin,end\nnan,2\n",
    "begin,end\n1,inf\n", "begin,end\n-1,2\n", "begin,end\n1,2,3\n", "begin,begin,end\n1,1,2\n",
    "begin,end,force\n1,2,1 2\n", "begin,end,force\n1,2,x\n", "begin,end,force\n1,2,1e400\n",
    "begin,end\n0.9,1.0\n0.4,0.6\n", "begin,end\n0.4,0.9\n0.5,0.6\n", "begin,end\n0.4,\n0.1,\n",
    "begin,end\n1e300,1e301\n", "begin;end\n1;2\n", "begin,end\n" + "0.1,0.2\n" * 3000,
    "recording,begin,end\nother,1,2\n", "recording,begin,end\n\x1b[31m,1,2\n", '"begin,end\n1,2\n',
    "begin,end,link\n0.4,0.6,nolink\n", "begin,end\n" + "x" * 2_000_000, "begin,end\n\x00,1\n",
    "begin , end\n 0.4 , 0.6 \n", "begin,end,link,force,recording,x\n1,2,3,4,5,6\n",
)  # fmt: skip


def labels(rng: np.random.Generator, folder: Path) -> Path:
    """Write a damaged file of labels."""
    path = folder / "labels.csv"
    draw = rng.random()
    if not raw.write_damaged_text(rng, path, sound.LABELS, draw, (0.3, 0.33, 0.36)):
        path.write_text(LABELS[int(rng.integers(len(LABELS)))])
    return path
