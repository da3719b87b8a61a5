# The kernel's own tests of the pick have run while it booted, and passed.
dmesg | grep -E 'mptcp_fbdt_|ok [0-9]+ mptcp-fbdt'
dmesg | grep -qE '(^|\] )ok [0-9]+ mptcp-fbdt$' && ! dmesg | grep -qE '(^|\] ) *not ok'
