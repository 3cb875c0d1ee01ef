"""Takes in what was measured elsewhere: single runs and whole submission trees become records, and a spec.

What the logs prove is recorded, what they cannot prove is marked unknown. Must not run or score anything, and must not
change what it reads.
"""
