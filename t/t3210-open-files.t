#!/bin/sh

test_description='The daemons that serve clients raise their limit of open files; what starts jobs does not'

. "$(dirname "$0")/sharness.sh"

# The soft and the hard limit of a daemon.
limits () {
	sed -n 's/^Max open files *\([0-9a-z]*\) *\([0-9a-z]*\) .*/\1 \2/p' /proc/$(weir_daemon $1)/limits
}

test_expect_success 'an instance that is started with few open files' '
	ulimit -S -n 200 &&
	weir_instance
'

test_expect_success 'job-manager and job-info raise the soft limit as far as they may' '
	for daemon in weir-job-manager weir-job-info
	do
		limits $daemon >limits &&
		read soft hard <limits &&
		if test $hard = unlimited || test $hard -gt 131072
		then
			hard=131072
		fi &&
		test $soft = $hard || return 1
	done
'

test_expect_success 'job-runner, and with it the jobs, keep theirs' '
	limits weir-job-runner >limits &&
	read soft hard <limits &&
	test $soft = 200 &&
	test $(weir run sh -c "ulimit -S -n") = 200
'

weir_stop

test_done
