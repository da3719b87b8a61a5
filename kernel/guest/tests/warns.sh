# For the test of the test: a kernel that complains.
echo 'WARNING: written by the test of the test' >/dev/kmsg
