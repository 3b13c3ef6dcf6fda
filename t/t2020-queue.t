#!/bin/sh

test_description='weir queue: stopping and starting, over a restart too; waiting until nothing runs'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance' '
	weir_instance
'

test_expect_success 'at first submission is enabled and jobs are started' '
	weir queue status >out &&
	{ echo "Job submission is enabled"; echo "Scheduling is started"; } >expected &&
	test_cmp expected out &&
	test "$(weir queue status --json | jq -c .queues[0])" = \
		"{\"name\":null,\"enabled\":true,\"started\":true,\"disable_reason\":null,\"stop_reason\":null,\"blocked\":null}"
'

test_expect_success 'stopped, jobs wait; the reason is shown' '
	weir queue stop -m "disk is full" >out &&
	grep "Scheduling is stopped: disk is full" out &&
	weir submit true >id &&
	test "$(weir jobs -n -o "{state}" $(cat id))" = SCHED
'

test_expect_success 'it stays stopped over a restart' '
	weir_stop &&
	weir_instance &&
	weir queue status >out &&
	grep "Scheduling is stopped: disk is full" out &&
	test "$(weir jobs -n -o "{state}" $(cat id))" = SCHED
'

test_expect_success 'started, they run' '
	weir queue start --quiet >out &&
	test_must_be_empty out &&
	weir wait $(cat id)
'

test_expect_success 'disabled, submissions are refused with the reason' '
	weir queue disable -m "closing soon" --quiet &&
	weir_fails 1 "disabled" "closing soon" -- weir submit true &&
	weir queue enable --quiet &&
	weir submit --quiet true
'

test_expect_success 'a queue that does not exist is named' '
	weir_fails 1 "nosuch" -- weir queue status nosuch &&
	weir_fails 1 "nosuch" -- weir queue stop nosuch
'

test_expect_success 'drain and idle wait for the jobs' '
	mkfifo hold &&
	weir submit sh -c "cat hold" >id &&
	weir job wait-event --quiet $(cat id) start &&
	weir_fails 124 "jobs are still active after 0.05s" -- weir queue drain -t 0.05s &&
	weir_fails 124 "jobs are still running after 0.05s" -- weir queue idle -t 0.05s &&
	{ weir queue drain >drained && echo done >drained & } &&
	drain=$! &&
	echo >hold &&
	wait $drain &&
	grep done drained &&
	weir queue idle
'

weir_stop

test_done
