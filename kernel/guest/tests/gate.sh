# The table: goodput and copies of each scheduler, interleaved, so that what the host does meanwhile
# meets all of them alike.
rounds=${WEFT_rounds:-5}
for round in $(seq 1 "$rounds"); do
    for rate in 20 100; do
        for case in 0 1 2 blocked; do
            for name in default forward fbdt; do
                scheduler "$name"
                loss=$case
                [ "$case" != blocked ] || loss=0
                links "$rate" "$loss"
                bytes=$((rate * 500000))
                [ "$case" != blocked ] || bytes=$((bytes * 2))
                copies=$(both DuplicateData)
                again=$(both MPTCPRetrans)
                if [ "$case" = blocked ]; then
                    # Of what has begun, so that all meet it with the windows open.
                    (usleep 700000; block 2; usleep 1000000; links "$rate" 0) >/dev/null 2>&1 &
                    meanwhile=$!
                fi
                transfer_to A $bytes "$round" "${WEFT_sndbuf:-4194304}" "${WEFT_rcvbuf:-0}" || exit 1
                [ "$case" != blocked ] || wait "$meanwhile"
                echo "gate $name $rate $case $(value mbit) $(value gap_ms)" \
                    "$(($(both DuplicateData) - copies)) $(($(both MPTCPRetrans) - again)) $bytes"
            done
        done
    done
done
