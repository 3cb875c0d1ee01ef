"""Stand-ins for MLCommons' power kit and for its server beside an analyzer, on the loopback interface."""
