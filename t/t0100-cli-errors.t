#!/bin/sh

test_description='What is wrong before anything happens: one line that names the thing and the remedy, and nothing is changed'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'a command that does not exist' '
	weir_fails 2 "jbos" "jobs" "see '\''weir --help'\''" -- weir jbos &&
	weir_fails 2 "nosuch" "see '\''weir job --help'\''" -- weir job nosuch
'

test_expect_success 'an option that does not exist, and one that lacks its value' '
	weir_fails 2 "--colr" "--color" "weir jobs --help" -- weir jobs --colr &&
	weir_fails 2 "--ntasks" "x" -- weir submit -n x true &&
	weir_fails 2 "COMMAND" -- weir submit
'

test_expect_success 'weir alone shows what there is and fails' '
	test_expect_code 2 weir 2>err &&
	grep -q "submit  *Submit a job" err
'

test_expect_success 'values that make no sense are named with what is allowed' '
	weir_fails 2 "5q" -- weir submit -t 5q true &&
	weir_fails 2 "urgency 32" "0 to 31" hold default expedite -- weir submit --urgency=32 true &&
	weir_fails 2 "urgency 32" "0 to 31" hold default expedite -- weir job priority 1234 32 &&
	weir_fails 2 "\"soon\"" "0 to 31" hold default expedite -- weir job urgency 1234 soon &&
	weir_fails 2 "runing" "pending, running" -- weir jobs -f runing &&
	weir_fails 2 "nosuch" "--format=help" -- weir jobs -o "{nosuch}" &&
	weir_fails 2 "NOPE" -- weir job kill -s NOPE 1234 &&
	weir_fails 2 "afterok" "not built yet" -- weir submit --dependency=afterok:1 true &&
	weir_fails 1 "nosuch" "core" -- weir submit --rlimit=nosuch=1 true
'

test_expect_success 'a text that is no job id' '
	for command in "cancel" "info" "wait" "job raise" "job kill" "job attach" "job status" "job wait" "job eventlog" "job id"
	do
		weir $command abc 2>err
		test $? != 0 && test_line_count = 1 err && grep "abc" err || return 1
	done
'

test_expect_success 'a socket that is not there' '
	WEIR_URI=local://$PWD/nosuch/socket &&
	export WEIR_URI &&
	weir_fails 1 "$PWD/nosuch/socket" "weir start" "WEIR_URI" -- weir jobs &&
	weir_fails 1 "$PWD/nosuch/socket" "weir start" -- weir submit true &&
	weir_fails 1 "$PWD/nosuch/socket" "weir start" -- weir journal &&
	WEIR_URI=ssh://host/x &&
	weir_fails 1 "WEIR_URI" "ssh://host/x" "local:///" -- weir jobs &&
	unset WEIR_URI
'

test_expect_success 'FLUX_URI counts when WEIR_URI is not set' '
	(
		FLUX_URI=local://$PWD/elsewhere/socket &&
		export FLUX_URI &&
		weir_fails 1 "$PWD/elsewhere/socket" FLUX_URI -- weir jobs
	)
'

test_expect_success 'negative numbers are values that are out of range, not options' '
	weir_fails 2 "-1 is not in 1" -- weir submit -n -1 true &&
	weir_fails 2 "-5" -- weir submit -t -5 true &&
	weir_fails 2 "-1" "0 to 31" -- weir job priority 1234 -1 &&
	weir_fails 2 "0 is not a count" -- weir job last 0
'

test_expect_success 'ids and a filter exclude each other' '
	weir_fails 2 "--filter" "cannot be used" -- weir jobs -f running 1234
'

test_expect_success 'an instance' '
	weir_instance &&
	weir submit true >id &&
	weir wait $(cat id) &&
	weir stats --json | jq .\"job-manager\".seq >seq
'

test_expect_success 'an id that was never given out' '
	weir_fails 1 "no such job 1234 (fNH)" -- weir jobs 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir info 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir cancel 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir wait 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job priority 1234 20 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job raise 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job kill 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job attach 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job status 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job eventlog 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job eventlog -F 1234 &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job wait-event 1234 start &&
	weir_fails 1 "no such job 1234 (fNH)" -- weir job info 1234 R
'

test_expect_success 'an id is named as it was typed' '
	weir_fails 1 "no such job 0x4d2 (fNH)" -- weir jobs 0x4d2 &&
	weir_fails 1 "no such job fNH" -- weir jobs fNH
'

test_expect_success 'a name, queue or filter that matches nothing does not look like success' '
	weir_fails 1 "no job matches" -- weir wait --name nosuch &&
	weir_fails 1 "no job matches" -- weir wait --queue nosuch &&
	weir jobs -n -q nosuch >out 2>err &&
	test_must_be_empty out && grep "no queue .nosuch. (there are no named queues)" err &&
	weir jobs -n -f "completed failed" >out 2>err &&
	test_must_be_empty out && grep "no job can be all of" err &&
	weir jobs -n -f "completed,failed" >out 2>err &&
	test_line_count = 1 out && test_must_be_empty err &&
	weir journal --from=all --no-follow --allow=strat >out 2>err &&
	test_must_be_empty out && test_line_count = 1 err && grep "strat" err
'

test_expect_success 'what came, but not as asked for, is told from what did not come' '
	weir_fails 1 "finish" "came, but not with status=7" -- weir job wait-event -m status=7 $(cat id) finish
'

test_expect_success 'a job that has ended is changed no more, and the line says why' '
	weir_fails 1 "$(cat id)" "inactive" -- weir cancel $(cat id) &&
	weir_fails 1 "$(cat id)" "inactive" -- weir job priority $(cat id) 20 &&
	weir_fails 1 "$(cat id)" "inactive" -- weir job kill $(cat id) &&
	weir_fails 1 "$(cat id)" "nosuch" -- weir job info $(cat id) nosuch
'

test_expect_success 'a jobspec that is refused: the line names the field' '
	weir_fails 1 "duration" -- weir submit --setattr=duration=-5 true &&
	weir_fails 1 "attributes.system.duration" -- weir submit --setattr=system.duration=long true &&
	weir_fails 1 "nosuch" -- weir submit -q nosuch true
'

test_expect_success 'a service that is not there' '
	weir_fails 1 "nosuch" -- weir ping -c 1 nosuch
'

test_expect_success 'none of this changed anything' '
	weir jobs -a -n -o "{id}" >jobs &&
	test_cmp id jobs &&
	weir stats --json | jq .\"job-manager\".seq >now &&
	test_cmp seq now
'

weir_stop

test_done
