# The table: goodput and copies of each scheduler, interleaved, so that what the host does meanwhile
# meets all of them alike.
sent() { # device: bytes that the router has sent there
    on R cat "/sys/class/net/$1/statistics/tx_bytes"
}
rounds=${WEFT_rounds:-5}
for round in $(seq 1 "$rounds"); do
    for rate in $(echo "${WEFT_rates:-20,100}" | tr , " "); do
        for case in $(echo "${WEFT_cases:-0,1,2,blocked}" | tr , " "); do
            for name in $(echo "${WEFT_names:-default,forward,fbdt}" | tr , " "); do
                scheduler "$name"
                loss=$case
                [ "$case" != blocked ] || loss=0
                links "$rate" "$loss"
                bytes=$((rate == 20 ? 10000000 : 20000000))
                [ "$case" != blocked ] || bytes=$((bytes * 2))
                copies=$(both DuplicateData)
                again=$(both MPTCPRetrans)
                before="$(sent rb1) $(sent rb2)"
                if [ "$case" = blocked ]; then
                    # Of what has begun, so that all meet it with the windows open.
                    (usleep 700000; block 2; usleep 1000000; links "$rate" 0) >/dev/null 2>&1 &
                    meanwhile=$!
                fi
                transfer_to A $bytes "$round" "${WEFT_sndbuf:-4194304}" "${WEFT_rcvbuf:-0}" || exit 1
                [ "$case" != blocked ] || wait "$meanwhile"
                echo "gate $name $rate $case $(value mbit) $(value gap_ms)" \
                    "$(($(both DuplicateData) - copies)) $(($(both MPTCPRetrans) - again)) $bytes $before $(sent rb1) $(sent rb2)" |
                    awk '{ printf "gate %s %s %s mbit=%s gap_ms=%s copies=%s again=%s link1=%.2f link2=%.2f\n",
                        $2, $3, $4, $5, $6, $7, $8, ($12 - $10) / $9, ($13 - $11) / $9 }'
            done
        done
    done
done
