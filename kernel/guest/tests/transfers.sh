# Transfers drawn at random: each byte is checked, nothing is stuck, nothing falls back.
checked=0 wrong=0
faults=$(both "$FAULTS") drops=$(both "$DROPS")
# How often data came ahead of what is missing, with two subflows or not.
ahead=$(both 'OFOQueue$')
: >/run/killed
copies=$(both 'DuplicateData')
joins=$(both 'MPJoinAckRx$')
first=${WEFT_first:-1} before=$(counted A "$FAULTS|$DROPS"; counted B "$FAULTS|$DROPS")
last=$((first + ${WEFT_transfers:-50} - 1))

# How many subflows both ends have. A server that is closing refuses a join of which the client thinks that it
# is there: a connection without its first subflow has none then, and ends, with any scheduler.
subflows() {
    for host in A B; do on "$host" ss -Htn state established | wc -l; done | sort -n | head -n 1
}

fault() { # name, ms, link: what happens meanwhile
    usleep $(($2 * 1000))
    case "$1" in
        kill*)
            # The first subflow only when there is another, which can take a moment to join.
            for try in $(seq 40); do
                open=$(subflows)
                [ "$open" -le 1 ] || break
                [ "$open" = 1 ] || [ "$try" -lt 5 ] || return
                usleep 50000
            done
            [ "$(on A ss -Htn state established dst "10.1${1#kill}.0.1" | wc -l)" -gt 0 ] || return
            [ "$(subflows)" -gt 1 ] || return
            [ -z "$(on A ss -KHtn dst "10.1${1#kill}.0.1" 2>/dev/null)" ] || echo "$1" >>/run/killed
            ;;
        down*)
            link_down "${1#down}"
            usleep 700000
            link_up "${1#down}"
            ;;
    esac
}

for seed in $(seq "$first" "$last"); do
    drawn=$(transfer draw "$seed")
    eval "$drawn"
    # shellcheck disable=SC2154
    links "$rate" "$loss"
    # shellcheck disable=SC2154
    checksums "$checksums"
    scheduler "${WEFT_scheduler:-fbdt}"
    # shellcheck disable=SC2154
    fault "$fault" "$fault_ms" >/dev/null 2>&1 &
    meanwhile=$!
    sender=A
    # shellcheck disable=SC2154
    [ "$role" = 0 ] || sender=B
    # shellcheck disable=SC2154
    if transfer_to "$sender" "$bytes" "$seed" "$sndbuf" "$rcvbuf"; then
        checked=$((checked + 1))
    else
        wrong=$((wrong + 1))
        echo "case $seed ($drawn): $said"
    fi
    wait $meanwhile
    now=$(counted A "$FAULTS|$DROPS"; counted B "$FAULTS|$DROPS")
    [ "$now" = "$before" ] || echo "case $seed ($drawn): counted$now, before:${before:- nothing}"
    before=$now
    [ $((seed % 25)) != 0 ] || echo "transfers: $seed"
done
checksums 0
faults=$(($(both "$FAULTS") - faults)) drops=$(($(both "$DROPS") - drops))
joins=$(($(both 'MPJoinAckRx$') - joins)) ahead=$(($(both 'OFOQueue$') - ahead))
killed=$(grep -c . /run/killed)
echo "transfers: $checked right, $wrong wrong or stuck, $faults fallbacks, $drops drops," \
    "$joins joins, $killed killed, $ahead times ahead, $(($(both DuplicateData) - copies)) duplicates"
[ "$wrong" = 0 ] && [ "$faults$drops" = 00 ] && [ "$checked" -gt 0 ] || exit 1
# A test of two subflows that had but one has shown nothing. Of few transfers that can happen.
[ $((last - first)) -lt 19 ] || { [ "$joins" -gt 0 ] && [ "$ahead" -gt 0 ]; } || exit 1
[ $((last - first)) -lt 49 ] || [ "$killed" -gt 0 ]
