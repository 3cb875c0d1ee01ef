"""One module for each verb of ``python -P -m harness VERB``, and the modules that only one verb uses."""
