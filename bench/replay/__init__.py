"""Speed and memory of ``replay``."""
