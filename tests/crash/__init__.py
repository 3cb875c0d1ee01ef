"""Commands that are killed at random instants, and how the next run of each ends."""
