"""Batches on NVIDIA GPUs: a loaded engine of any library goes in, a ``Session`` comes out."""
