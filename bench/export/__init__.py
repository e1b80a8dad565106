"""Exported C compared with the compiled Python functions and with C of Pinocchio by CasADi."""
