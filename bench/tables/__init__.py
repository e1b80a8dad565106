"""Published tables of the sources in comparison with the results of this package."""
