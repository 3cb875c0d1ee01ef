"""LoadGen's settings, its logs of settings and results, and checks that request and log agree.

``settings.py`` contains the only table of settings. The content of a user.conf, the expected lines of a detail log, and
a log's settings in spec form are all derived from it. The harness passes LoadGen the user.conf written here and names
only the few settings that it reads back; a test checks every row against the real LoadGen.
"""
