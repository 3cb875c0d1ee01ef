"""Batches on NVIDIA GPUs: a loaded engine of any library goes in, a ``Session`` comes out.

``driver`` alone calls CUDA. ``sample_memory`` keeps the samples in pinned host memory or on the device, ``lanes``
moves a batch through copy-in, compute and copy-out, ``pipeline`` spreads batches over lanes and devices, ``faults``
says what is wrong with one.
"""
