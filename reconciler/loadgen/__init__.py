"""LoadGen as this project sees it: its settings, what it logs of them and of its results, and whether the two agree.

``settings.py`` holds the one table of settings. What a user.conf says, what a detail log must show, what a spec would
say for a log: all of it derives from there. The harness hands LoadGen the user.conf that is written here and names no
setting of its own but the few attributes that it reads back; a test asks the real LoadGen about every row.
"""
