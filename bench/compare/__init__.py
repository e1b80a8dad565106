"""Four control laws on the same arms in MuJoCo.

MuJoCo is the plant because it shares no code with our dynamics. It has masses that are 5 % wrong,
friction within 30 % of what the laws are told, encoders, filtered velocities and noisy motors.
"""
