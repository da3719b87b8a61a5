# Three links, each of which must carry its part; then one that dies and one that loses, in the same transfer.
make_link 3
ip -n B mptcp endpoint add 10.13.0.1 dev b3 signal
failed=0 bytes=${WEFT_bytes:-12000000}
carried() { # link: bytes that came through to B
    on R cat "/sys/class/net/rb$1/statistics/tx_bytes"
}
for name in ${WEFT_scheduler:-default forward fbdt}; do
    scheduler "$name"
    arm_begins
    for case in whole dying; do
        shape 1 20 10 100 0
        shape 2 30 15 120 0
        shape 3 10 40 150 0
        before="$(carried 1) $(carried 2) $(carried 3)"
        if [ $case = dying ]; then
            # From the middle of what has begun: a join that is lost is none of this.
            (
                begun=$(carried 2)
                for try in $(seq 3000); do
                    [ $(($(carried 2) - begun)) -lt 3000000 ] || break
                    usleep 10000
                done
                block 2
                shape 3 10 40 150 1
            ) &
            meanwhile=$!
        fi
        transfer_to A "$bytes" "${WEFT_seed:-5}" 4194304 0 || failed=1
        [ $case = whole ] || wait $meanwhile
        parts=$(echo "$before $(carried 1) $(carried 2) $(carried 3)" |
            awk -v bytes="$bytes" '{ for (i = 1; i <= 3; i++) printf "%s%.2f", (i == 1 ? "" : " + "), ($(i + 3) - $i) / bytes }')
        echo "three: $name, $case: links $parts of the bytes: $said"
        # Their rates are 20, 30 and 10 of 60 Mb/s, and slow start is in it; a dead link had its 3 MB.
        [ $case = dying ] || echo "$parts" | awk '$1 < 0.15 || $3 < 0.15 || $5 < 0.05 { exit 1 }' || failed=1
    done
    arm_ends "$name" || failed=1
    [ "$arm_joins" = 4 ] || { echo "$arm_joins joins, not two for each transfer"; failed=1; }
done
[ $failed = 0 ]
