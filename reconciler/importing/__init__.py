"""Imports external measurements: single runs and whole submission trees become records, and a spec.

Facts that the logs prove are recorded, all others are marked unknown. It must not run or score anything, and must not
change its inputs.
"""
