#!/bin/sh

test_description='weir shutdown: drains, names what it waits for, can be taken back, and ends whatever happens'

. "$(dirname "$0")/sharness.sh"

# An instance with a job that runs until something is written to ./go.
weir_instance_with_job () {
	weir_instance "$@" &&
	rm -f go && mkfifo go &&
	id=$(weir submit --job-name=body --cwd="$PWD" sh -c "read line <go; exit 3") &&
	weir job wait-event --timeout=60 $id start
}

# The instance of weir_instance has ended by itself, with that status.
weir_ended () {
	wait $WEIR_PID
	test $? = ${1:-0} || return 1
	sed -i "/^$WEIR_PID\$/d" "$SHARNESS_TRASH_DIRECTORY/instances"
	WEIR_PID=
}

# No daemon of the state directory runs any more, nor what is named.
weir_none_left () {
	for name in weir-job-manager weir-job-info weir-job-runner "$@"
	do
		py daemons find $name >left && ! test -s left || return 1
	done
}

# weir_shutdown_begins [OPTIONS]: runs weir shutdown aside, returns when it is waiting.
weir_shutdown_begins () {
	rm -f said && mkfifo said &&
	{ weir shutdown "$@" 2>said & } &&
	WEIR_SHUTDOWN=$! &&
	timeout 60 head -n 1 <said >waiting
}

test_expect_success 'an idle instance is shut down: every process ends, and so does weir start, with status 0' '
	weir_instance &&
	weir submit true >id &&
	weir job wait-event --timeout=60 $(cat id) clean &&
	weir shutdown >out 2>err &&
	test_must_be_empty out &&
	test_must_be_empty err &&
	weir_ended &&
	weir_none_left weir-node &&
	weir_fails 1 "weir start" -- weir shutdown
'

test_expect_success 'what is waited for is named; submissions are refused with the reason; what waits stays for the next start' '
	weir_instance_with_job --runner-arg=--cores=0 &&
	waits=$(weir submit true) &&
	weir_shutdown_begins &&
	grep "waiting for 1 job: $id (body)" waiting &&
	weir_fails 1 "the instance is shutting down" -- weir submit true &&
	weir queue status >status &&
	grep "Job submission is disabled: the instance is shutting down" status &&
	echo >go &&
	wait $WEIR_SHUTDOWN &&
	weir_ended &&
	weir_none_left &&
	weir_instance &&
	test_expect_code 3 weir job status $id &&
	weir job wait-event --timeout=60 $waits clean &&
	weir_stop
'

test_expect_success '--timeout takes it back: everything is as it was, and the status is 124' '
	weir_instance_with_job &&
	weir_fails 124 "1 job still runs after 1s" "$id (body)" "taken back" -- weir shutdown --quiet --timeout=1s &&
	weir run true &&
	weir queue status >status &&
	! grep "shutting down" status &&
	test_expect_code 124 weir shutdown --json --timeout=1s 2>err >json &&
	jq -e "(.shut_down | not) and .waiting == 1 and .jobs[0].name == \"body\"" json
'

test_expect_success 'ctrl-C takes it back, and so does kill -9 of the command' '
	weir_shutdown_begins &&
	kill -INT $WEIR_SHUTDOWN &&
	test_expect_code 130 wait $WEIR_SHUTDOWN &&
	weir run true &&
	weir_shutdown_begins &&
	kill -KILL $WEIR_SHUTDOWN &&
	! { wait $WEIR_SHUTDOWN; } 2>/dev/null &&
	py shutdown taken-back &&
	weir run true
'

test_expect_success 'a job-manager that is killed meanwhile is asked again' '
	weir_shutdown_begins &&
	py daemons kill9 weir-job-manager &&
	py shutdown draining &&
	echo >go &&
	wait $WEIR_SHUTDOWN &&
	weir_ended &&
	weir_none_left
'

test_expect_success '--now cancels what runs, and says why' '
	weir_instance_with_job &&
	weir shutdown --now --quiet >out 2>err &&
	test_must_be_empty err &&
	weir_ended &&
	weir_none_left weir-node &&
	weir_instance &&
	weir job eventlog $id | grep "exception type=cancel severity=0 note=\"the instance is shutting down\"" &&
	weir jobs -a -no "{result}" $id | grep CANCELED &&
	weir_stop
'

test_expect_success '--now with a job that does not listen: the engine kills it' '
	weir_instance --runner-arg=--kill-grace=0.2 &&
	id=$(weir submit sh -c "trap : TERM; while :; do sleep 1; done") &&
	weir job wait-event --timeout=60 $id start &&
	weir shutdown --now --quiet &&
	weir_ended &&
	weir_none_left weir-node
'

test_expect_success '--now with a shepherd that is stopped: it is woken, and its job ends' '
	weir_instance_with_job &&
	py attacked stop $id &&
	weir shutdown --now --quiet &&
	weir_ended &&
	weir_none_left weir-node
'

test_expect_success '--now with an engine that hangs: the job is named and left, and the instance ends' '
	weir_instance_with_job &&
	kill -STOP $(weir_daemon weir-job-runner) &&
	test_expect_code 1 weir shutdown --now --timeout=0.5s --quiet 2>err &&
	grep "the instance has ended, but 1 job still runs: $id (body)" err &&
	weir_ended &&
	weir_none_left &&
	weir_instance &&
	weir job wait-event --timeout=60 $id clean &&
	weir_stop
'

test_expect_success 'with job-info stopped it ends all the same' '
	weir_instance_with_job &&
	kill -STOP $(weir_daemon weir-job-info) &&
	weir_shutdown_begins &&
	echo >go &&
	wait $WEIR_SHUTDOWN &&
	weir_ended &&
	weir_none_left
'

test_expect_success '--now with a job-manager that is stopped: weir start stops it' '
	weir_instance_with_job --keep-jobs &&
	kill -STOP $(weir_daemon weir-job-manager) &&
	test_expect_code 1 weir shutdown --now --quiet 2>err &&
	grep "does not answer.*weir start, process $WEIR_PID, is told to stop" err &&
	weir_ended &&
	weir_none_left &&
	weir_instance &&
	echo >go &&
	test_expect_code 3 weir job status $id &&
	weir_stop
'

test_expect_success 'a job-manager without a supervisor ends, too' '
	mkdir alone && : >manager.log &&
	{ weir-job-manager --statedir="$PWD/alone" 2>>manager.log & } &&
	manager=$! &&
	timeout 60 tail --pid=$manager -n +1 -f manager.log | grep -q -m 1 "ready socket=" &&
	(
		WEIR_URI=local://$PWD/alone/socket && export WEIR_URI &&
		weir shutdown
	) &&
	test_expect_code 3 wait $manager
'

test_expect_success 'guests and nonsense are refused' '
	weir_instance &&
	test_when_finished weir_stop &&
	weir_fails 2 "nonsense" -- weir shutdown --timeout=nonsense &&
	weir_fails 2 "--frobnicate" -- weir shutdown --frobnicate &&
	py shutdown refused
'

test_done
