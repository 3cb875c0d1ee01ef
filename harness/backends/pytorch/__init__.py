"""PyTorch: a ``torch.export`` program compiled ahead of the run by AOTInductor, on the CPU and on NVIDIA GPUs.

Packages (.pt2) run through the C interface that PyTorch keeps stable for deployed models: it takes bare addresses and
streams, and computes without the interpreter's lock, which the Python loader holds for the whole of a batch.
"""
