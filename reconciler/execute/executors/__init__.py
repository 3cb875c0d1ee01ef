"""Executors that carry requests out: a child here, one behind a launcher; a cluster's queue would be another.

Takes the folder of an attempt with its request; gives a handle, and at the end a folder with what was left. Must not
know plans, nor what a result means.
"""
