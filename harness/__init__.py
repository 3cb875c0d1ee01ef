"""Code that runs inside a benchmark process: backends, benchmarks, and the driver of LoadGen.

Never imports ``reconciler``; ``reconciler`` imports only ``harness.contract`` and the catalogs.
"""
