"""Rehearsals: a submission of generated data and networks, driven like any other."""
