# Small receive buffers: whatever is sent ahead must leave room for what is missing.
failed=0
for name in ${WEFT_scheduler:-forward fbdt}; do
    scheduler "$name"
    arm_begins
    for buffer in 65536 131072; do
        for loss in 0 1; do
            links 20 $loss
            transfer_to A 3000000 7 4194304 $buffer || failed=1
            echo "tight: $name, $buffer bytes, $loss % loss: $said"
        done
    done
    arm_ends "$name" || failed=1
done
[ $failed = 0 ]
