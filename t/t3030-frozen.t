#!/bin/sh

test_description='A daemon that is stopped (SIGSTOP) is named, and no command that asks once waits for it for ever'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance with a job' '
	weir_instance &&
	id=$(weir submit --urgency=hold --job-name=held true) &&
	manager=$(weir_daemon weir-job-manager) &&
	info=$(weir_daemon weir-job-info) &&
	cleanup "kill -CONT $manager $info 2>/dev/null || :"
'

test_expect_success 'promise: honest: the job-manager frozen: the last list is shown as stale, soon' '
	kill -STOP $manager &&
	timeout 20 weir jobs -n -o "{name}" >out 2>err &&
	echo held >expected && test_cmp expected out &&
	test_line_count = 2 err && head -n 1 err | grep "waiting for the job-manager to answer" &&
	tail -n 1 err | grep "the job-manager does not answer; this list is stale"
'

test_expect_success 'stats names the job-manager and shows the listing' '
	test_expect_code 1 timeout 20 weir stats >out 2>err &&
	grep "the job-manager .*does not answer (3s)" err &&
	grep "^job-list" out && grep "^jobs  *pending  *1$" out
'

test_expect_success 'ping waits as long as it is told' '
	weir_fails 1 "does not answer (0.2s)" -- timeout 10 weir ping -t 0.2s
'

test_expect_success 'job-info frozen: stats and ping name it' '
	kill -CONT $manager &&
	kill -STOP $info &&
	test_expect_code 1 timeout 20 weir stats >out 2>err &&
	grep "job-info does not answer (3s)" err &&
	grep "^job-manager" out && grep "^journal  *epoch" out &&
	weir_fails 1 "job-list: no answer within 0.2s" -- timeout 10 weir ping -t 0.2s job-list
'

test_expect_success 'and a listing ends with its name' '
	test_expect_code 1 timeout 50 weir jobs >out 2>err && test_must_be_empty out &&
	test_line_count = 2 err && head -n 1 err | grep "weir: jobs: waiting for job-info to answer" &&
	tail -n 1 err | grep "weir: jobs: job-info does not answer (30s)"
'

test_expect_success 'afterwards all is as before' '
	kill -CONT $info &&
	test "$(weir jobs --fresh -n -o "{name}")" = held
'

weir_stop

test_done
