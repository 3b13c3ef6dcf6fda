#!/bin/sh

test_description='waiting: for events, for ends, for waitable jobs; and what is said of what did not succeed'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance' '
	weir_instance --runner-arg=--cores=0-1
'

test_expect_success 'wait names those that did not succeed, and why (A14)' '
	good=$(weir submit --job-name=good true) &&
	bad=$(weir submit --job-name=bad sh -c "exit 3") &&
	gone=$(weir submit --urgency=hold --job-name=gone true) &&
	weir cancel $gone &&
	test_expect_code 1 weir wait $good $bad $gone >out 2>err &&
	test_must_be_empty out &&
	{ echo "weir: wait: $bad (bad): Exit 3"; echo "weir: wait: $gone (gone): Canceled"; } >expected &&
	test_cmp expected err &&
	test_expect_code 1 weir wait --json $good $bad $gone >out 2>/dev/null &&
	test "$(jq -c "[(.jobs | length), [.failed[].reason]]" out)" = "[3,[\"Exit 3\",\"Canceled\"]]" &&
	test_expect_code 1 weir wait --name=good,bad,gone 2>err &&
	test_line_count = 2 err &&
	weir wait --name=good
'

test_expect_success 'an end is waited for, not polled' '
	mkfifo hold &&
	id=$(weir submit sh -c "cat hold") &&
	weir_fails 124 "not all have ended" -- weir wait -t 0.05s $id &&
	{ weir wait $id && echo done >waited & } &&
	waiter=$! &&
	echo >hold &&
	wait $waiter &&
	grep done waited &&
	weir wait --active
'

test_expect_success 'an event that has happened is found, one that will come is waited for' '
	id=$(weir submit sh -c "cat hold; exit 2") &&
	weir job wait-event $id start >event &&
	grep " start\$" event &&
	weir_fails 124 "no '\''finish'\''" -- weir job wait-event -t 0.05s $id finish &&
	{ weir job wait-event --json $id finish >event & } &&
	waiter=$! &&
	echo >hold &&
	wait $waiter &&
	test "$(jq .context.status event)" = 512 &&
	weir_fails 1 "ended without '\''nosuch'\''" -- weir job wait-event $id nosuch
'

test_expect_success 'a job asked for as it is submitted is known (A03)' '
	for number in 1 2 3 4 5
	do
		id=$(weir submit true) && weir job wait-event --quiet $id submit && weir jobs $id >/dev/null || return 1
	done
'

test_expect_success 'status is the highest of all' '
	a=$(weir submit sh -c "exit 2") && b=$(weir submit sh -c "exit 7") && c=$(weir submit true) &&
	test_expect_code 7 weir job status $a $b $c &&
	test_expect_code 7 weir job status -v $a $b $c >out &&
	test_line_count = 3 out &&
	weir job status $c
'

test_expect_success 'waitable jobs are taken one by one, each once' '
	weir submit --flags=waitable true >ids &&
	weir submit --flags=waitable sh -c "exit 1" >>ids &&
	test_expect_code 1 weir wait --all 2>err &&
	grep "Exit 1" err &&
	weir_fails 1 "no more waitable" "--flags=waitable" -- weir wait
'

test_expect_success 'an eventlog is followed to its last event' '
	id=$(weir submit sh -c "cat hold") &&
	{ weir job eventlog -F $id >log & } &&
	follower=$! &&
	echo >hold &&
	wait $follower &&
	tail -n 1 log | grep " clean\$" &&
	weir job eventlog $id >once &&
	test_cmp once log &&
	weir job eventlog -p exec $id | grep shell.init
'

test_expect_success 'waiting goes on over a restart' '
	id=$(weir submit sh -c "cat hold") &&
	weir job wait-event --quiet $id start &&
	{ weir wait $id 2>err && echo done >waited2 & } &&
	waiter=$! &&
	kill -KILL $(weir_daemon weir-job-manager) &&
	weir jobs --fresh >/dev/null &&
	echo >hold &&
	wait $waiter &&
	grep done waited2
'

weir_stop

test_done
