"""`reconcile fetch`: downloads a benchmark's source files into the scratch space.

Takes the files that benchmarks name (``mlperf.benchmark_files``) and this disk's content; returns the files that are
here, those downloaded, and those to be obtained manually. None of this enters a key: a source is identified by its
bytes.
"""
