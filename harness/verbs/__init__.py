"""One module for each verb of ``python -P -m harness VERB``, and what serves only one of them."""
