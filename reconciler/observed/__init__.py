"""State of this disk and machine now: artifacts (stat tier, hash tier, deep tier), sources, installed backends,
hardware.

Takes the desired and recorded states (what to look for); gives one frozen ``Observed``. Starts nothing heavy.
"""
