"""Contact without force sensors, motion without surprise: dynamics, estimation, control."""

__version__ = "0.1.0"
