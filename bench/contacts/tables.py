"""Results of the study of contacts, as rows of a table and in comparison with the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.contacts.study import Outcome, Verdict, force_error

HEAD = (
    "contacts",
    "number",
    "missed",
    "delay median, p95 [ms]",
    "onset error median [ms]",
    "link named alone and right",
    "link among those named",
    "links named",
    "force error on the last two links, median",
)


@dataclass(frozen=True)
class Target:
    """A target as text, the measured value as text, and whether the value meets the target."""

    text: str
    found: str
    met: bool


def rows(outcome: Outcome) -> list[list[str]]:
    """Return the cells of the table with the columns :data:`HEAD`.

    It has a row for each kind of contact, for each arm, and for all contacts.
    """
    kinds = sorted({v.kind for v in outcome.verdicts}, key=lambda kind: (len(kind), kind))
    arms = dict.fromkeys(v.arm for v in outcome.verdicts)
    groups = [(kind, [v for v in outcome.verdicts if v.kind == kind]) for kind in kinds]
    groups += [(name, [v for v in outcome.verdicts if v.arm == name]) for name in arms]
    return [_row(name, group) for name, group in (*groups, ("all", outcome.verdicts))]


def targets(outcome: Outcome) -> list[Target]:
    """Return the targets of the study with the measured values."""
    verdicts = outcome.verdicts
    missed = sum(v.event is None for v in verdicts if v.kind == "20 N")
    pushes = [v for v in verdicts if v.contact.kind == "push"]
    among_pushes, alone_pushes = named(pushes)
    among_hard, alone_hard = named([v for v in verdicts if v.contact.kind != "push"])
    _, alone = named(verdicts)
    single = float(np.mean([len(v.event.candidates) == 1 for v in verdicts if v.event]))
    error, part = forces(verdicts)
    found = [
        Target("no push of 20 N is missed", str(missed), missed == 0),
        Target(
            "link among those named, pushes >= 98 %",
            f"{among_pushes:.1%}, {alone_pushes:.1%} alone",
            among_pushes >= 0.98,
        ),
        Target(
            "link among those named, collisions and obstacles >= 95 %",
            f"{among_hard:.1%}, {alone_hard:.1%} alone",
            among_hard >= 0.95,
        ),
        Target(
            "link named alone >= 70 %", f"{single:.1%}, and right in {alone:.1%}", single >= 0.70
        ),
        Target(
            "force on the last two links within 10 % or 2 N in the median",
            f"{part:.1%}, {error:.2f} N",
            part <= 0.10 or error <= 2.0,
        ),
    ]
    for kind, limit in (("20 N", 8.0), ("8 N", 16.0), ("collision", 3.0)):
        times = delays([v for v in verdicts if v.kind == kind])
        median = float(np.median(times)) if times.size else np.inf
        found.append(
            Target(f"{kind}: median delay <= {limit:g} ms", f"{median:.0f} ms", median <= limit)
        )
    per_hour = 3600.0 * outcome.false_events / outcome.duration
    text = f"{outcome.false_events} in {outcome.duration / 60.0:.0f} min"
    found.append(Target("at most one false alarm an hour between contacts", text, per_hour <= 1.0))
    return found


def delays(verdicts: Sequence[Verdict]) -> np.ndarray:
    """Return the delay from the start of each detected contact to the rise of the flag [ms]."""
    return np.array([1e3 * (v.event.detected - v.contact.start) for v in verdicts if v.event])


def named(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """Return two shares of the detected contacts, each in [0, 1]; zero without detected contacts.

    The true link is among the candidates of the event, and the true link is the only candidate.
    """
    found = [(v.contact.link, v.event.candidates) for v in verdicts if v.event]
    if not found:
        return 0.0, 0.0
    among = sum(link in candidates for link, candidates in found)
    alone = sum(candidates == (link,) for link, candidates in found)
    return among / len(found), alone / len(found)


def forces(verdicts: Sequence[Verdict]) -> tuple[float, float]:
    """Return the median force error of pushes on the last two links, [N] and relative to the push.

    Both are infinite without an estimate.
    """
    pairs = [(force_error(v), v.contact.size) for v in verdicts if v.on_last_links]
    errors = np.array([(error, error / size) for error, size in pairs if error is not None])
    if not errors.size:
        return np.inf, np.inf
    error, part = np.median(errors, axis=0)
    return float(error), float(part)


def _row(name: str, verdicts: Sequence[Verdict]) -> list[str]:
    found = [v for v in verdicts if v.event]
    times = delays(verdicts)
    onset = [1e3 * abs(v.event.onset - v.contact.start) for v in found if v.event]
    among, alone = named(verdicts)
    several = np.mean([len(v.event.candidates) for v in found if v.event]) if found else np.nan
    error, part = forces(verdicts)
    return [
        name,
        str(len(verdicts)),
        str(len(verdicts) - len(found)),
        "{:.0f}, {:.0f}".format(*np.percentile(times, [50, 95])) if found else "",
        f"{np.median(onset):.1f}" if found else "",
        f"{alone:.0%}",
        f"{among:.0%}",
        f"{several:.1f}",
        f"{error:.1f} N, {part:.0%}" if np.isfinite(error) else "",
    ]
