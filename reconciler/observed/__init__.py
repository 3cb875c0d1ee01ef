"""The present state of this disk and machine: artifacts (stat tier, hash tier, deep tier), sources, installed backends,
hardware.

Takes the desired and recorded states, which say what to look for; returns one frozen ``Observed``. Starts no heavy
work.
"""
