"""Shared code of the language model benchmarks: prompts on disk, and the official scripts' scores for texts."""
