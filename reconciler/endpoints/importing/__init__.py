"""Readers of runs of the client that were made elsewhere."""
