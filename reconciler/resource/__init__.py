"""The nouns that every stage shares: kinds, addresses, cells, inputs, keys, conditions. No I/O, no clock."""
