"""Recorded results in files, and the differences between two recordings."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]
"""Results of one case by name: NumPy arrays, or values that ``json`` can write."""

MOST_LINES = 10
"""Maximum number of printed differences of one case."""
MOST_VALUES = 2
"""Maximum number of printed differences of one array."""
_LONGEST = 100
"""Length above which a printed value is cut [characters]."""


def changes(values: Sequence[Any]) -> dict[str, Any]:
    """Return the values that differ from their predecessor, by the number of their sample."""
    return {
        f"sample {k}": value
        for k, value in enumerate(values)
        if k == 0 or repr(value) != repr(values[k - 1])
    }


def save(folder: Path, part: str, cases: Mapping[str, Case]) -> None:
    """Write the cases of a part: arrays as ``PART.npz``, other values as ``PART.json.gz``."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {}
    texts: dict[str, Case] = {}
    for name, case in cases.items():
        texts[name] = {k: v for k, v in case.items() if not isinstance(v, np.ndarray)}
        arrays |= {f"{name}|{k}": v for k, v in case.items() if isinstance(v, np.ndarray)}
    np.savez_compressed(folder / f"{part}.npz", **arrays)
    content = json.dumps(texts, indent=0, ensure_ascii=False).encode()
    (folder / f"{part}.json.gz").write_bytes(gzip.compress(content, mtime=0))


def load(folder: Path, part: str) -> dict[str, Case]:
    """Return the cases that :func:`save` has written."""
    cases: dict[str, Case] = json.loads(gzip.decompress((folder / f"{part}.json.gz").read_bytes()))
    with np.load(folder / f"{part}.npz") as arrays:
        for key in arrays.files:
            name, _, value = key.rpartition("|")
            cases[name][value] = arrays[key]
    return cases


def differences(old: Mapping[str, Case], new: Mapping[str, Case]) -> Iterator[tuple[str, str]]:
    """Yield the name of a case and the description of a difference, for all differences."""
    for name in dict.fromkeys((*old, *new)):
        if name not in new or name not in old:
            yield name, "the case is missing now" if name in old else "the case is new"
            continue
        for key in dict.fromkeys((*new[name], *old[name])):
            before, now = old[name].get(key), new[name].get(key)
            if isinstance(before, np.ndarray) and isinstance(now, np.ndarray):
                lines = _between_arrays(before, now)
            else:
                lines = _between_values(before, now)
            yield from ((name, f"{key}{line}") for line in lines)


def _between_arrays(old: np.ndarray, new: np.ndarray) -> Iterator[str]:
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        yield f": {old.dtype} {old.shape} -> {new.dtype} {new.shape}"
        return
    kind = f"u{old.dtype.itemsize}"
    differs = np.ascontiguousarray(old).view(kind) != np.ascontiguousarray(new).view(kind)
    if old.dtype.kind == "f":
        differs &= ~(np.isnan(old) & np.isnan(new))
    places = np.argwhere(differs)
    if not len(places):
        return
    largest = np.nanmax(np.abs(old[differs].astype(float) - new[differs].astype(float)))
    yield f": {len(places)} of {old.size} values differ, by at most {largest:.3g}; the first:"
    for place in map(tuple, places[:MOST_VALUES]):
        yield f"{list(map(int, place))}: {old[place].item()!r} -> {new[place].item()!r}"


def _between_values(old: Any, new: Any) -> Iterator[str]:
    before, now = dict(_leaves(old)), dict(_leaves(json.loads(json.dumps(new))))
    for path in dict.fromkeys((*before, *now)):
        a, b = before.get(path, "(missing)"), now.get(path, "(missing)")
        if a != b:
            yield f"{path}: {_cut(a, b)} -> {_cut(b, a)}"


def _cut(text: str, other: str) -> str:
    """Return the part of a long text around the first difference from another text."""
    first = len(commonprefix((text, other)))
    begin = max(first - _LONGEST // 2, 0) if len(text) > _LONGEST else 0
    return ("…" if begin else "") + text[begin : begin + _LONGEST]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and text of each number, text or empty container in a nested value."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}/{key}")
    elif isinstance(value, list) and value:
        for k, item in enumerate(value):
            yield from _leaves(item, f"{path}[{k}]")
    else:
        yield path, repr(value)
