"""Comparison of four control laws on the same arms in MuJoCo.

MuJoCo simulates the arms because it shares no code with this package. The simulated masses differ
from the description by 5 % and the friction by up to 30 % from the model of the laws. Positions
come from encoders, velocities are filtered, and the motors are noisy.
"""
