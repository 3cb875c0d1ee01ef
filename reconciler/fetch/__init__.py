"""`reconcile fetch`: what a benchmark is made from, brought into the scratch space.

Takes the files that benchmarks name (``mlperf.benchmark_files``) and what is on this disk; gives what is here, what was
downloaded, and what has to be brought by hand. Nothing of it enters a key: a source's identity is its bytes.
"""
