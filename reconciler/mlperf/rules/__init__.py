"""The rules of each round as values: ``rounds.py`` reads them from ``mlperf/rounds/*.yaml``, ``ruleset.py`` answers
what holds for a benchmark and scenario, ``comparison.py`` shows where sources or rounds differ."""
