# For the test of the test: a guest that hangs.
while :; do sleep 60; done
