"""Evaluation of the contact detector on arms in MuJoCo, with true contacts.

MuJoCo simulates the arm instead of the simulation of this package. It includes effects that are
unknown to the detector: joint friction that grows towards standstill, link masses that differ by 2
to 5 % from the URDF, encoders of 17 or 19 bits whose positions are differentiated for the velocity,
and noise on the measured torque. The arm follows an exciting trajectory while it is pushed or
collides with obstacles.

``python -m bench.contacts`` runs the study; :func:`bench.contacts.episode.simulate` makes the data.
"""
