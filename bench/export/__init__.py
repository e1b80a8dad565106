"""Speed of exported C, compared with frozen functions and with CasADi's C code of Pinocchio."""
