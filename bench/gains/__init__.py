"""Test of the standard errors of identified drive gains, on a simulated UR10e."""
