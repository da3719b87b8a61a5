# What the guest's tests share.

# The shell would take busybox's own.
ip() {
    /bin/ip "$@"
}

on() { # host, command…
    host=$1
    shift
    ip netns exec "$host" "$@"
}

make_hosts() {
    for host in A B R; do
        ip netns add "$host"
        ip -n "$host" link set lo up
    done
    echo 33554432 >/proc/sys/net/core/wmem_max
    echo 33554432 >/proc/sys/net/core/rmem_max
    make_link 1
    make_link 2
    on R sysctl -qw net.ipv4.ip_forward=1
    for host in A B; do
        on "$host" sysctl -qw net.mptcp.enabled=1 net.ipv4.tcp_congestion_control=cubic \
            net.ipv4.tcp_no_metrics_save=1 net.mptcp.add_addr_timeout=1
        ip -n "$host" mptcp limits set subflow 2 add_addr_accepted 2
    done
    ip -n B mptcp endpoint add 10.12.0.1 dev b2 signal
}

make_link() { # number: from A by R to B
    ip link add "a$1" netns A type veth peer name "ra$1" netns R
    ip link add "b$1" netns B type veth peer name "rb$1" netns R
    # netem loses and delays packets, not what the kernel has put together of many.
    ip -n A link set "a$1" gso_max_segs 1
    ip -n B link set "b$1" gso_max_segs 1
    ip -n A addr add "10.$1.0.1/24" dev "a$1"
    ip -n R addr add "10.$1.0.2/24" dev "ra$1"
    ip -n B addr add "10.1$1.0.1/24" dev "b$1"
    ip -n R addr add "10.1$1.0.2/24" dev "rb$1"
    for end in "A a$1" "R ra$1" "R rb$1" "B b$1"; do
        ip -n "${end% *}" link set "${end#* }" up
    done
    routes "$1"
}

routes() { # link: what is lost when it goes down
    ip -n A route replace "10.1$1.0.0/24" via "10.$1.0.2" 
    ip -n B route replace "10.$1.0.0/24" via "10.1$1.0.2"
}

shape() { # link, Mb/s, ms one way, queue in packets, loss in %
    for dev in "ra$1" "rb$1"; do
        on R tc qdisc replace dev "$dev" root netem rate "$2mbit" delay "$3ms" limit "$4" loss "$5%"
    done
}

links() { # name, loss in %: 20 + 30, 100 + 100 or 10 + 3 Mb/s, round trips of 10 to 200 ms; slow has a second of queue
    case "$1" in
        20) shape 1 20 10 100 "$2" && shape 2 30 15 120 "$2" ;;
        100) shape 1 100 5 250 "$2" && shape 2 100 15 350 "$2" ;;
        near) shape 1 20 5 100 "$2" && shape 2 30 5 120 "$2" ;;
        far) shape 1 20 100 340 "$2" && shape 2 30 100 500 "$2" ;;
        uneven) shape 1 20 5 100 "$2" && shape 2 30 100 500 "$2" ;;
        slow) shape 1 10 5 100 "$2" && shape 2 3 5 250 "$2" ;;
        *) echo "no links $1" && return 1 ;;
    esac
}

block() { # link: nothing comes through, and nobody is told
    for dev in "ra$1" "rb$1"; do on R tc qdisc replace dev "$dev" root netem loss 100%; done
}

link_down() {
    ip -n R link set "ra$1" down
}

link_up() {
    ip -n R link set "ra$1" up
    routes "$1"
}

scheduler() {
    for host in A B; do on "$host" sysctl -qw "net.mptcp.scheduler=$1" || return 1; done
}

checksums() {
    for host in A B; do on "$host" sysctl -qw "net.mptcp.checksum_enabled=$1"; done
}

counted() { # host, pattern: the counters of these names that are not 0, each with its count
    on "$1" awk -v names="$2" -v host="$1" '
        $1 == "MPTcpExt:" && !head { head = 1; for (i = 2; i <= NF; i++) name[i] = $i; next }
        $1 == "MPTcpExt:" { for (i = 2; i <= NF; i++) if (name[i] ~ names && $i) printf " %s.%s=%d", host, name[i], $i }
        ' /proc/net/netstat
}

counter() { # host, pattern: their sum
    counted "$1" "$2" | awk -v RS=' ' -F= '{ n += $2 } END { print n + 0 }'
}

both() { # pattern
    echo $(($(counter A "$1") + $(counter B "$1")))
}

# What must never be counted: a connection that is MPTCP no longer, a mapping or checksum refused.
FAULTS='Fallback|InfiniteMap|DSSNotMatching|DSSNoMatchTCP|DSSCorruption|DataCsumErr|MPFail'
# What a receiver drops after its TCP has acknowledged it: only where its memory is small.
DROPS='NoDSSInWindow|RcvPruned'

arm_begins() { # of a scheduler's transfers; arm_ends says whether they have shown anything
    arm_faults=$(both "$FAULTS") arm_joins=$(both 'MPJoinAckRx$') arm_ahead=$(both 'OFOQueue$')
}

arm_ends() { # scheduler: with a second subflow, data ahead of what is missing, and no fault
    arm_faults=$(($(both "$FAULTS") - arm_faults)) arm_joins=$(($(both 'MPJoinAckRx$') - arm_joins))
    arm_ahead=$(($(both 'OFOQueue$') - arm_ahead))
    echo "$1: $arm_joins joins, $arm_ahead times ahead, $arm_faults fallbacks"
    [ "$arm_faults" = 0 ] && [ "$arm_joins" -gt 0 ] && [ "$arm_ahead" -gt 0 ]
}

transfer_to() { # A or B sends: bytes, seed, sndbuf, rcvbuf, [stop at, seconds]; the result in $said
    case "$1" in
        A) client="send $2 $3 $4" server="receive $2 $3 $5 ${6:-0} ${7:-0}" ;;
        B) server="send $2 $3 $4" client="receive $2 $3 $5 ${6:-0} ${7:-0}" ;;
    esac
    server_times='' client_times=''
    if [ -n "${TIMED:-}" ]; then
        server_times=/run/received client_times=/run/sent
        [ "$1" = A ] || server_times=/run/sent client_times=/run/received
    fi
    rm -f /run/server /run/client /run/sent /run/received
    # shellcheck disable=SC2086
    on B env TIMES="$server_times" PACE="${PACE:-}" TCP="${TCP:-}" timeout "${LIMIT:-300}" transfer listen 0.0.0.0 $server >/run/server 2>&1 &
    server_pid=$!
    # shellcheck disable=SC2034
    for try in $(seq 6000); do
        grep -q listening /run/server 2>/dev/null && break
        kill -0 "$server_pid" 2>/dev/null || break
        usleep 10000
    done
    # shellcheck disable=SC2086
    on A env TIMES="$client_times" PACE="${PACE:-}" TCP="${TCP:-}" timeout "${LIMIT:-300}" transfer connect "${CONNECT_TO:-10.11.0.1}" $client >/run/client 2>&1
    client_status=$?
    wait $server_pid
    server_status=$?
    said=$(cat /run/server /run/client | grep -v listening)
    if [ "$client_status$server_status" = 00 ]; then
        [ -z "${TIMED:-}" ] || said="$said $(transfer delays /run/sent /run/received)"
        return 0
    fi
    # What has timed out is stuck.
    case "$client_status $server_status" in *143* | *124*) said="stuck $said" ;; esac
    return 1
}

value() { # NAME= in $said
    echo "$said" | tr ' ' '\n' | sed -n "s/^$1=//p" | head -1
}

quiet() { # the kernel has nothing to complain of
    ! dmesg | grep -E 'WARNING|BUG|Call Trace|KASAN|refcount|soft lockup|blocked for more' | head -5 | grep .
}
