#!/bin/sh

test_description='A stopped or disabled queue is still so, with its reason, after any kind of end and start'

. "$(dirname "$0")/sharness.sh"

# The queue is stopped and disabled, both reasons are shown, and it acts so.
weir_queue_is_closed () {
	weir queue status >status &&
	cat >expected <<-\EOF &&
	Job submission is disabled: moving house
	Scheduling is stopped: disk is being replaced
	EOF
	test_cmp expected status &&
	weir queue status --json >json &&
	jq -e ".queues[0] | .disable_reason == \"moving house\" and .stop_reason == \"disk is being replaced\"" json >/dev/null &&
	weir_fails 1 "moving house" -- weir submit true &&
	weir jobs -no "{id} {state}" >jobs &&
	test_cmp before jobs
}

test_expect_success 'a queue is stopped while a job waits in it, then disabled' '
	weir_instance &&
	weir queue stop -m "disk is being replaced" &&
	id=$(weir submit true) &&
	weir queue disable -m "moving house" &&
	weir jobs -no "{id} {state}" >before &&
	grep SCHED before &&
	weir_queue_is_closed
'

for name in weir-job-manager weir-job-runner
do
	test_expect_success "kill -9 of $name" '
		py daemons kill9 $name &&
		weir_queue_is_closed
	'
done

test_expect_success 'kill -9 of everything at once' '
	manager=$(weir_daemon weir-job-manager) &&
	kill -KILL $WEIR_PID $manager &&
	weir_instance &&
	weir_queue_is_closed
'

test_expect_success 'SIGTERM to weir start' '
	weir_stop &&
	weir_instance &&
	weir_queue_is_closed
'

test_expect_success 'weir shutdown' '
	weir shutdown &&
	wait $WEIR_PID &&
	weir_instance &&
	weir_queue_is_closed &&
	weir queue start --quiet &&
	weir job wait-event --timeout=60 $id clean &&
	weir queue stop -m "disk is being replaced" --quiet &&
	weir queue enable --quiet &&
	id=$(weir submit true) &&
	weir queue disable -m "moving house" --quiet &&
	weir jobs -no "{id} {state}" >before &&
	weir_queue_is_closed
'

test_expect_success 'a full disk: what was said before it is so after it, what was refused is not' '
	weir_stop &&
	weir_instance --manager-arg=--store-size-limit=1048576 &&
	py shutdown fill &&
	weir_fails 1 "full" -- weir queue enable &&
	weir_fails 1 "full" -- weir queue start &&
	weir_queue_is_closed &&
	py daemons kill9 weir-job-manager &&
	weir_queue_is_closed &&
	weir shutdown &&
	wait $WEIR_PID &&
	weir_instance &&
	weir_queue_is_closed
'

test_expect_success 'opened again, it stays open' '
	weir queue enable --quiet &&
	weir queue start --quiet &&
	weir job wait-event --timeout=60 $id clean &&
	py daemons kill9 weir-job-manager &&
	py daemons wait weir-job-runner &&
	weir queue status >status &&
	cat >expected <<-\EOF &&
	Job submission is enabled
	Scheduling is started
	EOF
	test_cmp expected status &&
	weir_stop
'

test_done
