"""Code that the benchmarks of language models share: prompts on disk, and the scores that official scripts print for
texts."""
