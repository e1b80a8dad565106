"""Published tables of papers and theses in comparison with the results of this package."""
