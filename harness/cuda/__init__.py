"""Batches on NVIDIA GPUs: turns a loaded engine of any library into a ``Session``."""
