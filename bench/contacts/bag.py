"""Write an episode as a rosbag2 recording with measured and true values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from bench.contacts.episode import Episode
from bench.contacts.plant import PERIOD
from rbd_control.playback.bag import BOOL, JOINT_STATE
from rbd_control.playback.recording import CONTACT_TOPICS, TORQUE_TOPICS

START = 1_700_000_000_000_000_000
"""Stamp of the first sample [ns]."""
TRUTH_EVERY = 5
"""Number of samples for each message with the true torque."""

_STORE = get_typestore(Stores.LATEST)
_JointState, _Bool = _STORE.types[JOINT_STATE], _STORE.types[BOOL]
_Header = _STORE.types["std_msgs/msg/Header"]
_Time = _STORE.types["builtin_interfaces/msg/Time"]


def write_recording(path: Path, pieces: Iterable[Episode]) -> None:
    """Write one episode as a rosbag2 recording (mcap).

    ``/joint_states`` contains the measured values. The true contact flag and, for every fifth
    sample, the true external joint torques are on the topics from which ``rbd-control replay``
    reads them.

    Args:
        path: folder of the recording, which must not exist.
        pieces: successive pieces of the episode.
    """
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        states, torques = (
            writer.add_connection(topic, JOINT_STATE, typestore=_STORE)
            for topic in ("/joint_states", TORQUE_TOPICS[0])
        )
        flag = writer.add_connection(CONTACT_TOPICS[0], BOOL, typestore=_STORE)
        touched = None
        for piece in pieces:
            names = list(piece.arm.model.joint_names)
            nothing = np.zeros(0)
            for k, t in enumerate(piece.t):
                time = START + round(1e9 * t)
                stamp = _Time(sec=time // 10**9, nanosec=time % 10**9)
                header = _Header(stamp=stamp, frame_id="")
                now = bool(piece.force[k].any())
                if now != touched:
                    touched = now
                    writer.write(flag, time, _STORE.serialize_cdr(_Bool(data=now), BOOL))
                state = _JointState(header, names, piece.q[k], piece.v[k], piece.tau[k])
                writer.write(states, time, _STORE.serialize_cdr(state, JOINT_STATE))
                if round(t / PERIOD) % TRUTH_EVERY == 0:
                    truth = _JointState(header, names, nothing, nothing, piece.external[k])
                    writer.write(torques, time, _STORE.serialize_cdr(truth, JOINT_STATE))
