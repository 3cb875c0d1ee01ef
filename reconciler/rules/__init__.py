"""The rulebook: rounds as data, rulesets, LoadGen log parsing, user.conf. Pure functions from values to values."""
