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

test_expect_success 'a command is not run where jobs of another session would be canceled' '
	weir_instance --runner-arg=--cores=0 &&
	weir submit -t1m sleep 60 >id && weir queue stop && weir submit true >waits && weir_stop &&
	weir_fails 1 "$PWD/state holds" "have not ended" "canceled" "run that beside it: weir start" \
		-- weir start --statedir="$PWD/state" touch ran &&
	! test -e ran &&
	weir_instance --runner-arg=--cores=0 &&
	test "$(weir jobs -no "{state}" $(cat waits))" = SCHED &&
	weir cancel $(cat waits) && { weir cancel $(cat id) || :; } && weir queue start && { weir wait $(cat id) || :; } && weir_stop &&
	weir start --statedir="$PWD/state" --runner-arg=--cores=0 touch ran && test -f ran
'

test_expect_success 'guests are let in by both daemons, where the directory is open to them' '
	rm -rf state && WEIR_PID= && weir_instance --allow-guests &&
	test_when_finished weir_stop &&
	test "$(stat -c %a state)" = 711 && test "$(stat -c %a state/store.sqlite state/key state/log | sort -u | tr "\n" " ")" = "600 700 " &&
	for daemon in weir-job-manager weir-job-info
	do
		tr "\0" "\n" </proc/$(weir_daemon $daemon)/cmdline | grep -x -e --allow-guests || return 1
	done
'

test_done
