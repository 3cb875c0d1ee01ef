"""MLPerf Endpoints: its rules, regions of concurrency, measured points and what is judged of them. Pure, but for
``results.read_point``, which reads the folder that the official client left."""
