"""The table of conditions, and what the package says about each."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from bench.conditions.study import Judged, Outcome
from bench.speed.sheets import Sheet

SLOWER, LATER = 1.3, 0.002
"""Largest ratio of the median delay to the nominal one that is no harm, and time beyond it [s].

A delay is a whole number of samples, so that a few samples later may be a large ratio.
"""
MISSED = 1
"""Largest number of pushes missed beyond those of the nominal arm that is no harm."""
HEADER = (
    "",
    "free\ns",
    "false\ncontacts",
    "flag up\n%",
    "pushes,\nmedian ms",
    "no verdict\n%",
    "plain:\nfalse",
    "flag up\n%",
    "pushes,\nmedian ms",
    "named by",
    "verdict",
)
NOTES = (
    "False contacts and share of the free time with a raised flag: in the first minute under the "
    "condition, and later, between the pushes. Pushes: found of those of 20 N, median delay; a "
    "push while the flag is up already counts as missed. Plain: first-order momentum observer "
    "(50 1/s) with the same model and friction, thresholds 1.3 times its largest residual in the "
    "calibration motion, on the same samples. Named by: who warns of the true cause, a node so "
    "many seconds after its begin. Harmless: no false contact, at most one push less, and a "
    "delay of at most 1.3 times the nominal arm's + 2 ms."
)


def sheet(arm: str, outcomes: Sequence[Outcome]) -> Sheet:
    """Return the table of one arm; its first outcome is the nominal one."""
    rows = [_row(outcome, outcomes[0]) for outcome in outcomes]
    return Sheet(f"Conditions: {arm}", HEADER, [rows], NOTES)


def is_harmless(outcome: Outcome, nominal: Outcome) -> bool:
    """Return whether a condition does no harm to the product."""
    found, usual = outcome.product, nominal.product
    if found is None or usual is None:
        return False
    return (
        not found.early + found.late
        and found.early_share + found.late_share + found.blind < 1e-3 + 2.0 * usual.blind
        and usual.found - found.found <= MISSED
        and found.delay <= SLOWER * usual.delay + LATER
    )


def verdict(outcome: Outcome, nominal: Outcome) -> str:
    """Return the verdict on a row in a word or two."""
    if is_harmless(outcome, nominal):
        return "harmless"
    if outcome.named_by():
        return "named"
    return "refused" if outcome.product is None else "HARM, NO WORD"


def sentences(outcomes: Sequence[Outcome]) -> str:
    """Return the warnings of all rows as Markdown."""
    lines = []
    for outcome in outcomes:
        lines.append(f"- **{outcome.condition}**")
        texts = dict.fromkeys((s.who, s.text) for s in outcome.sentences)
        lines += [f"  - {who}: {text}" for who, text in texts] or ["  - no warning"]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome, nominal: Outcome) -> list[str]:
    product, plain = outcome.product, outcome.plain
    free = product or plain
    return [
        outcome.condition,
        f"{free.free:.0f}" if free else "-",
        *_cells(product),
        f"{100.0 * product.blind:.1f}" if product else "-",
        *_cells(plain),
        ", ".join(_who(*item) for item in outcome.named_by().items()) or "-",
        verdict(outcome, nominal),
    ]


def _who(name: str, time: float | None) -> str:
    return name if time is None else f"{name} {time:.0f} s"


def _cells(judged: Judged | None) -> list[str]:
    if judged is None:
        return ["-", "-", "-"]
    delay = "-" if isnan(judged.delay) else f"{1e3 * judged.delay:.0f}"
    return [
        f"{judged.early}, {judged.late}",
        f"{_percent(judged.early_share)}, {_percent(judged.late_share)}",
        f"{judged.found} of {judged.pushes}, {delay}",
    ]


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g}" if share < 0.995 else "100"
