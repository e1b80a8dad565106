"""Matching of the joints of a recording with the joints of the model, also by prefix."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rbd_control.errors import RecordingError
from rbd_control.joint_states.prefix import names_with_other_prefix
from rbd_control.wording import listed, shortened


def match_joints(
    model: Sequence[str],
    recorded: Sequence[str],
    joints: Sequence[str] | None = None,
    *,
    others: Collection[str] = (),
) -> tuple[tuple[str, ...], list[str]]:
    """Return the recorded names of the model's joints, in the model's order, and notes.

    Args:
        model: names of the model's joints.
        recorded: names of the joints in the recording.
        joints: the recorded names of the model's joints, in the model's order. If None, the names
            of the model are used; if the recording contains none of these names, the set of names
            that differ from them by one prefix (``panda_joint1``, ``fer_joint1``) is used, if there
            is exactly one.
        others: the other joints of the description, held and fixed joints included; a set of names
            that belongs to them is not used, because they may be another arm.

    Returns:
        The names, and a list with a note for the user if another prefix was used; else empty.

    Raises:
        RecordingError: naming the joints that the recording lacks, or if ``joints`` has another
            number of names than ``model``.
    """
    if joints is not None:
        if len(joints) != len(model):
            raise RecordingError(
                f"{len(joints)} names are given for the model's {len(model)} joints "
                f"({listed(model)})"
            )
        return _present(model, tuple(joints), recorded, others), []
    if not set(model) & set(recorded):
        fitting = names_with_other_prefix(model, recorded, others)
        if len(fitting) == 1:
            return fitting[0], [
                f"joint names differ by a prefix: {fitting[0][0]} in the recording is taken for "
                f"{model[0]} of the model, and so on"
            ]
    return _present(model, tuple(model), recorded, others), []


def _present(
    model: Sequence[str],
    names: tuple[str, ...],
    recorded: Sequence[str],
    others: Collection[str],
) -> tuple[str, ...]:
    missing = [
        (joint, name) for joint, name in zip(model, names, strict=True) if name not in recorded
    ]
    if missing:
        remedy = f"hold joints that do not move: --lock {shortened(missing[0][0], 30)}=POSITION"
        if len(missing) == len(names):
            remedy = "is this its URDF? --recorded-joints maps other names"
            if recorded and set(recorded) <= set(others):
                remedy = "these are other joints of its URDF; name those of the arm in joints"
        lacks = listed((name for _, name in missing), 50)
        raise RecordingError(
            f"has no joint {lacks}; its joints are {listed(recorded, 50)}; {remedy}"
        )
    return names
