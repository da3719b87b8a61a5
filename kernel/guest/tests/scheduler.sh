# The names are known, an unknown one is refused, and a change of it harms no open connection.
for name in default forward fbdt; do
    scheduler "$name" || { echo "no scheduler $name"; exit 1; }
done
if on A sysctl -qw net.mptcp.scheduler=nonesuch 2>/dev/null; then
    echo "an unknown scheduler was accepted"
    exit 1
fi
[ "$(on A sysctl -n net.mptcp.scheduler)" = fbdt ] || { echo "the refused name was kept"; exit 1; }
links 20 0
(
    for name in forward default fbdt default forward; do
        usleep 150000
        scheduler "$name"
    done
) &
changes=$!
scheduler fbdt
transfer_to A 4000000 1 0 0 || { echo "while the scheduler was changed: $said"; exit 1; }
wait $changes
scheduler fbdt
