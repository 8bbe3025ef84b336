"""For developers of gage-eval, in the checkout only: the lock of code hashes, and pages made from the code."""
