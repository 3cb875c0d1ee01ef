"""Children of the passes of tests without their start: forks of one process that has loaded what all of them load."""
