#!/bin/sh
# One end of transfers between two machines, in the network namespace that has their two links. The other
# end runs the same, with the other side's letter.
#
#   peer.sh A|B DEVICE1 DEVICE2 SCHEDULERS     A connects, B listens; SCHEDULERS: those of A, with commas
#
# A's scheduler is what is tested; B has its own, whatever its kernel. Each transfer goes in both directions,
# with checksums and without. Exit status: 0 if all bytes were right, with two subflows, and nothing fell back.
side=$1 first=$2 second=$3 schedulers=$4
case "$side" in A) own=1 ;; B) own=2 ;; *) exit 2 ;; esac
bytes=${BYTES:-3000000}
# In a guest, the shell would take busybox's own.
for program in ip tc; do
    [ ! -x "/bin/$program" ] || eval "$program() { /bin/$program \"\$@\"; }"
done

total() { # pattern: the sum of MPTCP's counters of these names
    awk -v names="$1" '
        $1 == "MPTcpExt:" && !head { head = 1; for (i = 2; i <= NF; i++) name[i] = $i; next }
        $1 == "MPTcpExt:" { for (i = 2; i <= NF; i++) if (name[i] ~ names) n += $i }
        END { print n + 0 }' /proc/net/netstat
}
FAULTS='Fallback|InfiniteMap|DSSNotMatching|DSSNoMatchTCP|DSSCorruption|DataCsumErr|MPFail|MPCapableDataFallback'

ip link set lo up
for link in 1 2; do
    device=$first rate=20mbit
    [ $link = 1 ] || { device=$second rate=30mbit; }
    ip addr add "10.2$link.0.$own/24" dev "$device"
    ip link set "$device" gso_max_segs 1
    ip link set "$device" up
    # Without it, what this end sends is not shaped, and is tested nevertheless.
    tc qdisc replace dev "$device" root netem rate $rate delay 10ms limit 200 loss "${LOSS:-0.3}%" 2>/dev/null ||
        echo "peer $side: no netem on $device"
done
sysctl -qw net.mptcp.enabled=1 net.mptcp.add_addr_timeout=1 || exit 1
# A namespace may not choose what its machine does not allow.
sysctl -qw net.ipv4.tcp_congestion_control=cubic 2>/dev/null ||
    echo "peer $side: $(sysctl net.ipv4.tcp_congestion_control)"
ip mptcp limits set subflow 2 add_addr_accepted 2
[ "$side" = A ] || ip mptcp endpoint add 10.22.0.2 dev "$second" signal

number=0 failed=0 joins=0 ahead=0
for scheduler in $(echo "$schedulers" | tr , ' '); do
    [ "$side" = B ] || sysctl -qw "net.mptcp.scheduler=$scheduler" || exit 1
    for sums in 0 1; do
        sysctl -qw "net.mptcp.checksum_enabled=$sums"
        for sender in A B; do
            number=$((number + 1))
            port=$((9000 + number)) joined=$(total 'MPJoin(Syn)?AckRx$|MPJoinSynAckRx$') queued=$(total 'OFOQueue$')
            faults=$(total "$FAULTS")
            what=receive
            [ "$side" != $sender ] || what=send
            for try in $(seq 600); do
                # An odd seed: the sender closes only when half has arrived, so that a second subflow joins.
                if [ "$side" = A ]; then
                    said=$(timeout 300 transfer connect "10.21.0.2:$port" $what "$bytes" $((2 * number + 1)) 0)
                else
                    said=$(timeout 300 transfer listen "0.0.0.0:$port" $what "$bytes" $((2 * number + 1)) 0)
                fi
                status=$?
                case "$said" in *connect:*) sleep 0.1 ;; *) break ;; esac
            done
            joined=$(($(total 'MPJoin(Syn)?AckRx$|MPJoinSynAckRx$') - joined))
            queued=$(($(total 'OFOQueue$') - queued)) faults=$(($(total "$FAULTS") - faults))
            joins=$((joins + joined)) ahead=$((ahead + queued))
            echo "peer $side: $scheduler, checksums $sums, $sender sends: status $status, $joined joins," \
                "$queued times ahead, $faults fallbacks; $(echo $said)"
            [ "$status$faults" = 00 ] && [ "$joined" -gt 0 ] || failed=1
        done
    done
done
[ "$ahead" -gt 0 ] || failed=1
echo "peer $side: $number transfers, $joins joins, $ahead times ahead, failed=$failed"
exit $failed
