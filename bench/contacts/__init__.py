"""Contacts on arms that MuJoCo simulates: data with the truth, to judge the detector by.

The plant is MuJoCo, not our own arm. It knows what the detector is not told: joint friction that
grows towards standstill, link masses 2 to 5 % beside those of the URDF, encoders of 17 or 19 bits
with the velocity differentiated from them, noise on the measured torque. The arm follows an
exciting trajectory while it is pushed, or runs into obstacles.

``python -m bench.contacts`` is the study; the generator is :func:`bench.contacts.episode.simulate`.
"""
