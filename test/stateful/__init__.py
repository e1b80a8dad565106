"""State machines: random sequences of input for controller and detector, and their promises."""
