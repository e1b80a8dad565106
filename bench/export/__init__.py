"""Exported C beside the compiled Python functions and code that CasADi generates of Pinocchio."""
