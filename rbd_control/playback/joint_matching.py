"""Which joints of a recording are those of the model, where the two are named differently."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

from rbd_control.errors import RecordingError


def match_joints(
    model: Sequence[str], recorded: Sequence[str], joints: Sequence[str] | None = None
) -> tuple[tuple[str, ...], list[str]]:
    """The recorded names of the model's joints, in the model's order, and what to say about it.

    ``joints`` are these names, if given. Otherwise they are the model's own; or, when the
    recording has none of them, those that differ by nothing but one prefix (``panda_joint1``,
    ``fer_joint1``), if there is exactly one such set.

    Raises:
        RecordingError: naming the joints that the recording lacks.
    """
    if joints is not None:
        if len(joints) != len(model):
            raise RecordingError(
                f"{len(joints)} names given for the model's {len(model)} joints "
                f"({', '.join(model)})"
            )
        return _present(model, tuple(joints), recorded), []
    if not set(model) & set(recorded):
        renamed = _with_other_prefix(model, recorded)
        if renamed:
            return renamed, [
                f"joints are matched but for their prefix: {renamed[0]} in the recording is "
                f"{model[0]} of the model, and so on"
            ]
    return _present(model, tuple(model), recorded), []


def _present(
    model: Sequence[str], names: tuple[str, ...], recorded: Sequence[str]
) -> tuple[str, ...]:
    missing = [
        (joint, name) for joint, name in zip(model, names, strict=True) if name not in recorded
    ]
    if missing:
        remedy = f"hold joints it does not move with --lock {missing[0][0]}=POSITION"
        if len(missing) == len(names):
            remedy = "is this its URDF? --joints tells names that differ"
        raise RecordingError(
            f"the recording has no joint {', '.join(name for _, name in missing)}; its joints "
            f"are {', '.join(recorded)}; {remedy}"
        )
    return names


def _with_other_prefix(model: Sequence[str], recorded: Sequence[str]) -> tuple[str, ...] | None:
    prefix = commonprefix(list(model))
    rests = [name[len(prefix) :] for name in model]
    if len(rests) < 2:
        return None
    sets = {
        tuple(name[: len(name) - len(rests[0])] + rest for rest in rests)
        for name in recorded
        if name.endswith(rests[0])
    }
    complete = [names for names in sets if set(names) <= set(recorded)]
    return complete[0] if len(complete) == 1 else None
