# Nothing is sent beyond the window that the peer has said, though packets are lost: it would be dropped there
# after TCP has acknowledged it.
failed=0
for name in ${WEFT_scheduler:-default forward fbdt}; do
    scheduler "$name"
    links 100 1
    beyond=$(both NoDSSInWindow)
    for seed in $(seq "${WEFT_times:-20}"); do
        transfer_to B 2000000 "$seed" 4194304 $((150000 + seed * 10000)) || failed=1
    done
    beyond=$(($(both NoDSSInWindow) - beyond))
    echo "window: $name: $beyond segments beyond it; the last transfer: $said"
    [ "$beyond" = 0 ] || failed=1
done
[ $failed = 0 ]
