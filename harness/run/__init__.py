"""A run of LoadGen: samples, queries, batches, loops and tokens."""
