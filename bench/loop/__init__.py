"""Latency, losses, load and memory of the nodes in a control loop: ``python -m bench.loop``."""
