# The table: each scheduler in each cell, interleaved. A cell is LINKS:CASE[:RCVBUF[:PACE]], a case a loss in %
# or `blocked`: the second link carries nothing for a second. PACE is in Mb/s; without, all is written at once.
sent() { # device: bytes that the router has sent there
    on R cat "/sys/class/net/$1/statistics/tx_bytes"
}

bytes_of() { # links, case, rcvbuf, pace: enough for the windows to open, and no more
    if [ -n "$4" ]; then
        echo $(($4 * 1000000 / 8 * 4))
    elif [ "$3" != 0 ]; then
        echo 4000000
    else
        case "$1:$2" in
            100:blocked | 100:0) echo 30000000 ;;
            100:*) echo 10000000 ;;
            *:blocked) echo 15000000 ;;
            *:0) echo 10000000 ;;
            *) echo 6000000 ;;
        esac
    fi
}

run_cell() { # scheduler, links, case, rcvbuf, pace, round
    loss=$3
    [ "$3" != blocked ] || loss=0
    links "$2" "$loss" || return 1
    bytes=$(bytes_of "$2" "$3" "$4" "$5")
    copies=$(both DuplicateData) again=$(both MPTCPRetrans) faults=$(both "$FAULTS")
    before="$(sent rb1) $(sent rb2)"
    if [ "$3" = blocked ]; then
        # Of what has begun, so that all meet it with the windows open.
        (usleep 700000; block 2; usleep 1000000; links "$2" 0) >/dev/null 2>&1 &
        meanwhile=$!
    fi
    PACE=$5 TIMED=1
    through "$1" "$bytes" "$6" "${WEFT_sndbuf:-0}" "$4" || { echo "$*: $said"; return 1; }
    [ "$3" != blocked ] || wait "$meanwhile"
    faults=$(($(both "$FAULTS") - faults))
    echo "gate $1 $2:$3:$4:$5 $(value mbit) $(value gap_ms) $(value p50_ms) $(value p99_ms)" \
        "$(value busy_ms)" "$(($(both DuplicateData) - copies)) $(($(both MPTCPRetrans) - again))" \
        "$bytes $before $(sent rb1) $(sent rb2)" |
        awk '{ printf "gate %s %s mbit=%s gap_ms=%s p50_ms=%s p99_ms=%s cpu_s_gb=%.1f copies=%s again=%s link1=%.2f link2=%.2f\n",
            $2, $3, $4, $5, $6, $7, $8 / $11 * 1e6, $2 ~ /^weftline/ ? "?" : $9, $10, ($14 - $12) / $11, ($15 - $13) / $11 }'
    [ "$faults" = 0 ] || { echo "$*: $faults fallbacks"; return 1; }
}

through() { # scheduler, bytes, seed, sndbuf, rcvbuf: of the kernel, or weftline-NAME for one of user space
    chosen=$1
    shift
    TCP='' CONNECT_TO=''
    case "$chosen" in
        weftline-*) through_weftline "${chosen#weftline-}" "$@" ;;
        *) scheduler "$chosen" && transfer_to A "$@" ;;
    esac
}

through_weftline() { # scheduler, bytes, seed, sndbuf, rcvbuf; not encrypted, as the kernel's
    rm -f /run/serve /run/connect
    # Not by `on`: what is killed in the end must be the program, not the shell that waits for it.
    /bin/ip netns exec B weftline serve --insecure-plaintext --max-memory 4MiB \
        --listen 0.0.0.0:4443 --forward 127.0.0.1:9000 >/run/serve 2>&1 &
    serve=$!
    /bin/ip netns exec A weftline connect --insecure-plaintext --max-memory 4MiB --scheduler "$1" --congestion cubic \
        --server 10.11.0.1:4443 10.12.0.1:4443 --path one=10.1.0.1 two=10.2.0.1 \
        --listen 127.0.0.1:9100 >/run/connect 2>&1 &
    connect=$!
    shift
    for try in $(seq 600); do
        if grep -q listening /run/serve && grep -q listening /run/connect; then break; fi
        usleep 10000
    done 2>/dev/null
    TCP=1 CONNECT_TO=127.0.0.1:9100
    transfer_to A "$1" "$2" 262144 0
    result=$?
    [ $result = 0 ] || tail -n 5 /run/serve /run/connect
    kill $serve $connect
    wait $serve $connect
    return $result
}

for round in $(echo "${WEFT_rounds:-1,2,3,4,5}" | tr , " "); do
    for cell in $(echo "$WEFT_cells" | tr , " "); do
        for name in $(echo "${WEFT_names:-default,forward,fbdt}" | tr , " "); do
            IFS=: read -r links case rcvbuf pace <<END
$cell
END
            run_cell "$name" "$links" "$case" "${rcvbuf:-0}" "$pace" "$round" || exit 1
        done
    done
done
