"""Rehearsals: submissions with generated data and networks, processed like any other submission."""
