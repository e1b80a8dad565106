"""Speed of the dynamics compared with Pinocchio and MuJoCo: ``python -m bench.speed``."""
