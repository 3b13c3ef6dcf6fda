#!/bin/sh

test_description='What a command says that waits: for a daemon, for an instance that ends, for a queue that is stopped'

. "$(dirname "$0")/sharness.sh"

# begin: an instance whose words on standard output are in the file said
begin () {
	rm -f said
	mkfifo said.fifo
	tee said <said.fifo >said.again &
	TEE_PID=$!
	weir start --statedir="$PWD/state" --runner-arg=--die-with-supervisor >said.fifo 2>start.err &
	WEIR_PID=$!
	echo $WEIR_PID >>instances
	WEIR_URI=local://$PWD/state/socket
	export WEIR_URI
	until grep -q "weir: ready" said
	do
		kill -0 $WEIR_PID || return 1
	done
	rm said.fifo
}

# ended STATUS TEXT: the instance has ended by itself, with that status and these last words
ended () {
	wait $WEIR_PID
	test $? = $1 &&
	sed -i "/^$WEIR_PID\$/d" instances &&
	WEIR_PID= &&
	wait $TEE_PID &&
	test "$(tail -n 1 said)" = "$2"
}

test_expect_success 'ctrl-C of weir start says what goes on, and how many jobs run on' '
	begin &&
	mkfifo hold &&
	one=$(weir submit sh -c "cat hold") &&
	weir job wait-event --quiet $one start &&
	kill -INT $WEIR_PID &&
	ended 0 "weir: stopped" &&
	grep "stopping the daemons; 1 job runs on and is found again by" said &&
	grep "weir start .*--statedir=" said
'

test_expect_success 'what waits for a job when the instance is shut down says so, with a status of its own' '
	begin &&
	weir queue drain -t 60s &&
	weir queue stop &&
	pending=$(weir submit true) &&
	(
		weir wait --json $pending >waited 2>wait.err &
		pids=$!
		weir run true >run.out 2>run.err &
		pids="$pids $!"
		weir job eventlog -F $pending >log 2>log.err &
		pids="$pids $!"
		until test $(weir jobs -n | wc -l) = 2 && grep -q priority log &&
			test $(weir stats --json | jq ".\"job-list\".idsync.waits") -ge 1
		do
			:
		done
		weir shutdown
		for pid in $pids
		do
			wait $pid
			echo $?
		done >codes
	) &&
	test "$(xargs <codes)" = "75 75 75" &&
	grep "weir: wait: the instance was shut down" wait.err && test_line_count = 1 wait.err &&
	grep "weir: run: the instance was shut down" run.err &&
	grep "the instance was shut down" log.err &&
	jq -e ".errors | length == 1" waited &&
	ended 0 "weir: the instance was shut down"
'

test_expect_success 'a stopped queue is in the document, and is said at a terminal when jobs wait for it' '
	weir_instance &&
	weir queue stop -m "disk is full" &&
	weir jobs --json | jq -e ".queues[0] | .started == false and .stop_reason == \"disk is full\"" &&
	weir jobs 2>err && test_must_be_empty err &&
	script -qec "weir jobs" /dev/null >screen </dev/null &&
	grep "weir: jobs: the queue is stopped (disk is full)" screen &&
	weir queue start --quiet &&
	script -qec "weir jobs" /dev/null >screen </dev/null &&
	! grep "stopped" screen &&
	weir queue drain -t 60s
'

test_expect_success 'a job-info that says nothing is named while it is waited for' '
	info=$(weir_daemon weir-job-info) &&
	kill -STOP $info && test_when_finished "kill -CONT $info" &&
	mkfifo words &&
	{ weir jobs >out 2>words & } &&
	pid=$! &&
	timeout 20 head -n 1 words >first &&
	kill -CONT $info &&
	wait $pid &&
	grep "weir: jobs: waiting for job-info to answer" first
'

weir_stop

test_expect_success 'shutdown in the command of a private instance ends the instance, not the command' '
	mkdir -p tmp &&
	TMPDIR=$PWD/tmp test_expect_code 5 weir start sh -c "weir submit true; weir shutdown; echo \$?; weir jobs 2>gone; exit 5" >out 2>err &&
	test "$(tail -n 1 out)" = 0 &&
	! grep "could not be canceled" err &&
	grep "no instance" gone &&
	test -z "$(ls tmp)"
'

test_done
