# For the test of the test: a guest that passes.
true
