# A receiver that stops reading for 10 s: the window closes and opens again.
failed=0
for name in ${WEFT_scheduler:-forward fbdt}; do
    scheduler "$name"
    arm_begins
    links 20 0
    for time in $(seq "${WEFT_times:-1}"); do
        for buffer in 131072 0; do
            transfer_to A 6000000 $((8 + time)) 4194304 $buffer 1000000 10 || failed=1
            echo "pause: $name, rcvbuf $buffer: $said"
        done
    done
    arm_ends "$name" || failed=1
done
[ $failed = 0 ]
