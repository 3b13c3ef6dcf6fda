#!/bin/sh

test_description='weir shutdown --now ends in bounded time whatever the jobs do to those who look after them'

. "$(dirname "$0")/sharness.sh"

for attack in \
	'kill -STOP $PPID' \
	'kill -STOP $(cut -d" " -f4 /proc/$PPID/stat)' \
	'kill -STOP $(cut -d" " -f4 /proc/$PPID/stat) $PPID' \
	'kill -KILL $PPID'
do
	test_expect_success "a job that does '$attack' and ignores SIGTERM" '
		weir_instance --keep-jobs --runner-arg=--cores=0 --runner-arg=--kill-grace=0.5 &&
		rm -f pid &&
		cat >body <<-EOF &&
		trap "" TERM
		echo \$\$ >pid
		$attack
		while :; do sleep 0.1; done
		EOF
		id=$(weir submit sh ./body) &&
		until test -s pid; do :; done &&
		timeout 40 weir shutdown --now &&
		wait $WEIR_PID &&
		WEIR_PID= &&
		py attacked nothing state &&
		! kill -0 $(cat pid) 2>/dev/null
	'
done

test_done
