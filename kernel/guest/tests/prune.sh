# A receiver whose MPTCP drops what its TCP has acknowledged, for it has no memory for it: only MPTCP's
# retransmission sends that again. The receiver stops reading, and meanwhile TCP may have hardly any.
failed=0
limits=$(cat /proc/sys/net/ipv4/tcp_mem)
checksums 0
for name in ${WEFT_scheduler:-default forward fbdt}; do
    scheduler "$name"
    arm_begins
    # Slow, so that there is time to see when the receiver has stopped.
    shape 1 4 10 100 0
    shape 2 6 15 100 0
    pruned=$(counter B 'RcvPruned') again=$(counter A 'MPTCPRetrans')
    begun=$(on R cat /sys/class/net/rb1/statistics/tx_bytes)
    (
        for try in $(seq 1000); do
            now=$(on R cat /sys/class/net/rb1/statistics/tx_bytes)
            [ $((now - begun)) -lt 200000 ] || break
            usleep 10000
        done
        # How much is hardly any depends on how much it has just now.
        for pages in 400 300 200 150 500 600 700 800; do
            echo "1 1 $pages" >/proc/sys/net/ipv4/tcp_mem
            usleep 200000
            [ "$(counter B RcvPruned)" = "$pruned" ] || break
        done
        echo "squeezed to $pages pages"
        echo "$limits" >/proc/sys/net/ipv4/tcp_mem
    ) &
    meanwhile=$!
    LIMIT=${WEFT_limit:-60} transfer_to A 2500000 3 524288 1048576 200000 4 || failed=1
    wait $meanwhile
    echo "$limits" >/proc/sys/net/ipv4/tcp_mem
    pruned=$(($(counter B 'RcvPruned') - pruned)) again=$(($(counter A 'MPTCPRetrans') - again))
    echo "prune: $name, $pruned dropped, $again sent again by MPTCP: $said"
    [ "$pruned" -gt 0 ] && [ "$again" -gt 0 ] || failed=1
    arm_ends "$name" || failed=1
done
[ $failed = 0 ]
