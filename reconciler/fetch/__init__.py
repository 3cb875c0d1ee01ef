"""`reconcile fetch`: download a benchmark's source files into the scratch space.

Takes the files that benchmarks name (``mlperf.benchmark_files``) and this disk's content. Returns the files that are
here, the files that were downloaded, and those that the user must obtain. None of this enters a key, because a source
is identified by its bytes.
"""
