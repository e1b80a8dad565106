"""What an arm is: its description, and what was identified about it."""
