"""Rehearsals: a submission of generated data and networks, processed like any other."""
