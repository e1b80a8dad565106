"""Record the results of the package on fixed inputs, and compare later results bit by bit."""
