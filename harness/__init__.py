"""What runs inside a benchmark process: backends, benchmarks, and what starts LoadGen.

Never imports ``reconciler``; ``reconciler`` imports only ``harness.contract`` and the catalogs.
"""
