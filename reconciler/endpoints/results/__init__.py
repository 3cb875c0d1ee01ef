"""Results of the client: what a run leaves, as a result of a round and as a point of a curve."""
