# For the test of the test: a test that fails.
false
