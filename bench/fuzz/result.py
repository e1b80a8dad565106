"""Results of a run of the fuzzer: failures and counts; files with the inputs of failures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.fuzz.inputs import Input
from rbd_control.joint_states import DROPS

MALFORMED = "malformed messages on "
"""Beginning of the diagnostic keys that count malformed messages, by topic."""

CAUGHT = "failures of "
"""Beginning of the diagnostic keys that count exceptions, by callback."""


@dataclass(frozen=True)
class Failure:
    """A failure of a node or command.

    Attributes:
        what: kind of failure: ended, no answer, traceback, torque, long line, not recovered, ...
        where: node or command that failed.
        detail: one line.
        kind: kind of the inputs that led to it.
        scene: number of the scene in the plan; -1 outside of a scene.
        trace: the traceback; empty without a traceback.
        saved: file with the inputs, for ``--replay``.
    """

    what: str
    where: str
    detail: str
    kind: str = ""
    scene: int = -1
    trace: str = ""
    saved: str = ""

    @property
    def signature(self) -> tuple[str, str, str]:
        """Texts that are equal for failures with the same cause."""
        by_detail = self.what not in ("file not named", "long line")
        return self.what, self.where, self.detail if by_detail else ""


@dataclass
class KindCount:
    """Numbers of inputs of one kind.

    Attributes:
        sent: number of published messages and sent requests.
        received: number of answered requests, and of messages after which every node answered;
            :class:`NodeCount` has the joint states that the nodes counted.
        skipped: number of inputs left out because their failure had been found often enough.
    """

    sent: int = 0
    received: int = 0
    skipped: int = 0


@dataclass
class NodeCount:
    """Counts and memory of one node in a run.

    Attributes:
        starts: number of starts.
        counted: counts in its diagnostics, summed over all processes.
        lines: number of lines of output.
        kilobytes: for each process of the node, the successive values of (number of inputs so far,
            resident memory [kB]).
    """

    starts: int = 0
    counted: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    lines: int = 0
    kilobytes: list[list[tuple[int, int]]] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Number of joint states and malformed messages that the node received and did not use."""
        return sum(self.counted[reason] for reason in DROPS) + sum(
            count for key, count in self.counted.items() if key.startswith(MALFORMED)
        )


@dataclass
class WireResult:
    """Results of a run over the wire.

    Attributes:
        seed: seed of the run.
        seconds: duration [s].
        kinds: numbers of inputs by kind.
        nodes: counts and memory by node.
        failures: all failures, in order.
        torques: number of checked torque commands.
        largest_torque: largest ratio of a torque to its limit.
        orders: number of successful (``in charge``) and failed (``not in charge``) calls of
            ``~/resume`` before the bursts, which shows how many bursts met an active controller.
        unavailable: types of services that could not be called, because their package is not
            installed.
    """

    seed: int
    seconds: float = 0.0
    kinds: dict[str, KindCount] = field(default_factory=dict)
    nodes: dict[str, NodeCount] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    torques: int = 0
    largest_torque: float = 0.0
    orders: Counter[str] = field(default_factory=Counter)
    unavailable: tuple[str, ...] = ()

    @property
    def sent(self) -> int:
        """Number of sent inputs of all kinds."""
        return sum(each.sent for each in self.kinds.values())

    def count(self, inputs: Sequence[Input], attribute: str) -> None:
        """Add inputs to the counts of their kinds.

        Args:
            inputs: the inputs.
            attribute: the count, an attribute of :class:`KindCount`.
        """
        for each in inputs:
            row = self.kinds.setdefault(each.kind, KindCount())
            setattr(row, attribute, getattr(row, attribute) + 1)


@dataclass
class FileCount:
    """Files of one kind, given to one command.

    Attributes:
        files: number of files.
        accepted: runs that ended with exit code 0.
        refused: runs that ended correctly with an error, see
            :func:`~bench.fuzz.command_line.judgement`.
        failures: all other runs.
        longest: time of the longest run [s].
    """

    files: int = 0
    accepted: int = 0
    refused: int = 0
    failures: int = 0
    longest: float = 0.0


@dataclass
class FileResult:
    """Results of a run with files; ``kinds`` is by kind of file and command."""

    seed: int
    seconds: float = 0.0
    kinds: dict[tuple[str, str], FileCount] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    growth: float = 0.0
    """Largest growth of the memory of a worker after its first tenth of files [MB]."""

    @property
    def files(self) -> int:
        """Number of files of all kinds."""
        return sum(each.files for each in self.kinds.values())


def save_bursts(path: Path, bursts: Sequence[Sequence[Input]], about: dict[str, Any]) -> None:
    """Write inputs to a JSON file for ``python -m bench.fuzz --replay``.

    Args:
        path: the file.
        bursts: the inputs in bursts.
        about: facts about the failure, as plain values.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {**about, "bursts": [[each.to_json() for each in burst] for burst in bursts]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


def load_bursts(path: Path) -> tuple[dict[str, Any], list[list[Input]]]:
    """Return the content of a file of :func:`save_bursts`: facts about the failure, and inputs.

    Raises:
        ValueError: if :func:`save_bursts` did not write the file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        bursts = [[Input.from_json(each) for each in burst] for burst in content.pop("bursts")]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} holds no inputs that the fuzzer saved: {error!r}") from error
    return content, bursts
