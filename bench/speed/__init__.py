"""How long the dynamics take, beside Pinocchio and MuJoCo: ``python -m bench.speed``."""
