"""The command ``rbd-control``."""
