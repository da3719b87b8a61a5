# One of the kernel's own scripts of tests, as it is. What its subtests say is judged outside.
# New namespaces have the scheduler `default`; the `ip` of guest/selftests gives them another.
export SCHEDULER="${WEFT_scheduler:-default}"
rm -f /run/schedulers
for number in 0 1 2; do ln -sf /proc/self/fd/$number "/dev/$(echo stdin stdout stderr | cut -d' ' -f$((number + 1)))"; done
ln -sfn /proc/self/fd /dev/fd
# They often look for a symbol there, and each time all of them would be made anew.
cat /proc/kallsyms >/run/kallsyms
mount --bind /run/kallsyms /proc/kallsyms
# The same sizes, losses and delays in each arm, and no failure is excused as flaky.
echo 'RANDOM=26' >/run/bash_env
(
    cd /selftests/mptcp || exit 1
    # shellcheck disable=SC2086
    BASH_ENV=/run/bash_env PATH=/guest/selftests:$PATH SELFTESTS_MPTCP_LIB_OVERRIDE_FLAKY=1 \
        /bin/bash "./$WEFT_script.sh" ${WEFT_flags:-} </dev/null 2>&1
    echo "$WEFT_script: exit status $?"
) | tee /run/said
echo "$WEFT_script: $(wc -l </run/schedulers) namespaces with $(sort -u /run/schedulers | paste -sd' ')"
# It came to its end, with as many results as it announces, and each namespace had the scheduler.
said=$(grep -cE '^(not )?ok [0-9]+ - ' /run/said)
[ "$said" -gt 0 ] && grep -qx "1\.\.$said" /run/said && [ "$(sort -u /run/schedulers)" = "$SCHEDULER" ]
