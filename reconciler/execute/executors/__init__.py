"""Executors, which run requests: in a child here, behind a launcher, or in a cluster's queue.

An executor takes the folder of an attempt with its request, returns a handle, and leaves the results in the folder. It
must not know plans or interpret results.
"""
