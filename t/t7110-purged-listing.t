#!/bin/sh

test_description='Purged jobs as listings show them: not at all, whoever asks, and also after a restart of either side'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'jobs that are over, one that waits' '
	weir_instance &&
	for n in 1 2 3 4
	do
		weir submit --job-name=over$n sh -c "echo out$n" >over$n &&
		weir job wait-event --quiet $(cat over$n) clean || return 1
	done &&
	weir submit --urgency=hold --job-name=held true >held &&
	printf "%s\n" held over4 over1 >expected
'

# shown: the listing is what is expected, and the counts agree with it
shown () {
	weir jobs -a -n --fresh -o "{name}" >met &&
	test_cmp expected met &&
	weir stats --json | jq -e ".jobs | .inactive_purged == 2 and .successful == 2 and .job_states.inactive == 2 and .job_states.total == 3"
}

test_expect_success 'two are purged: the very next listing is without them' '
	weir job purge --force $(cat over2) $(cat over3) &&
	shown
'

test_expect_success 'asked for by its id there is no such job; nobody waits for it' '
	for job in over2 over3
	do
		weir_fails 1 "$(cat $job)" -- timeout 20 weir jobs $(cat $job) &&
		test_must_fail timeout 20 weir job wait-event $(cat $job) clean 2>err &&
		test_must_fail timeout 20 weir job attach $(cat $job) 2>err &&
		test_must_fail timeout 20 weir job info $(cat $job) R 2>err || return 1
	done &&
	weir job attach $(cat over4) >out && echo out4 >out.expected && test_cmp out.expected out
'

test_expect_success 'a job-info that is started anew shows the same' '
	pid=$(weir_daemon weir-job-info) && kill -KILL $pid &&
	shown
'

test_expect_success 'a job-manager that is started anew changes nothing' '
	pid=$(weir_daemon weir-job-manager) && kill -KILL $pid &&
	shown
'

test_expect_success 'the instance ends' '
	weir_stop
'

test_done
