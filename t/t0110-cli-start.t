#!/bin/sh

test_description='weir start: what it says about its daemons and itself is what helps'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'the hint for starting again has the same options' '
	weir_instance -s 2 "--runner-arg=--cores=0" &&
	test_when_finished weir_stop &&
	WEIR_URI=local://$PWD/other/socket &&
	mkfifo said &&
	{ weir start --statedir="$PWD/other" -s 2 --runner-arg=--cores=0 >said & } &&
	start=$! &&
	head -n 11 said >hint &&
	kill $start && wait $start &&
	grep "weir start .*--statedir=$PWD/other.* -s 2 --runner-arg=--cores=0\$" hint
'

test_expect_success 'a state directory in use: who keeps it, and what stops that' '
	weir_instance &&
	test_when_finished weir_stop &&
	weir_fails 1 "in use by process $(weir_daemon weir-job-manager)" "weir start is process $WEIR_PID" "kill $WEIR_PID" \
		-- weir start --statedir="$PWD/state"
'

test_expect_success 'an argument that a daemon does not take is named, once' '
	weir_fails 1 "weir-job-manager" "--foo" -- weir start --statedir="$PWD/bad" --manager-arg=--foo &&
	weir_fails 1 "weir-job-runner" "100000" -- weir start --statedir="$PWD/bad" -s 100000 &&
	! grep -e "--help" fails.err
'

test_expect_success 'a daemon that was killed: nothing old is quoted' '
	weir_instance &&
	test_when_finished weir_stop &&
	kill -KILL $(weir_daemon weir-job-info) &&
	weir jobs --fresh >/dev/null &&
	grep "weir-job-info was ended by signal 9 (Killed), starting it again in [0-9.]*s$" start.err
'

test_done
