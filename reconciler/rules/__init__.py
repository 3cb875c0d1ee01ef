"""The rulebook: rounds as data, rulesets, LoadGen log parsing, user.conf. Pure: values in, values out."""
