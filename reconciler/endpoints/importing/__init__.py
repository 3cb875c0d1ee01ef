"""Readers of client runs that were made elsewhere."""
