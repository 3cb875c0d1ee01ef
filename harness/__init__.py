"""What runs inside a benchmark process: backends, benchmarks, and the one door to LoadGen.

Never imports ``reconciler``; ``reconciler`` imports only ``harness.contract`` and the catalogs.
"""
