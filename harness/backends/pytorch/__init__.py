"""PyTorch: a ``torch.export`` program compiled before the run by AOTInductor, on the CPU and on NVIDIA GPUs.

Packages (.pt2) run through the stable C interface for deployed models: it takes raw addresses and streams, and computes
without the interpreter lock, which the Python loader keeps for an entire batch.
"""
