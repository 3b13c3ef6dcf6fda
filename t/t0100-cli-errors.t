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
	weir_fails 2 "afterok" "SCHEME:VALUE" -- weir submit --dependency=afterok true &&
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

test_expect_success 'purge says which limit, --all or ids to give, and removes nothing (A08)' '
	weir_fails 2 "--age-limit" "--num-limit" "--all" "ids" "nothing was removed" -- weir job purge &&
	weir_fails 2 "--age-limit" "nothing was removed" -- weir job purge --force
'

test_expect_success 'an instance' '
	weir_instance &&
	weir submit true >id &&
	weir wait $(cat id) &&
	weir stats --json | jq .\"job-manager\".seq >seq
'

test_expect_success 'an id that was never given out' '
	weir_fails 1 "no such job fNH" -- weir jobs 1234 &&
	weir_fails 1 "no such job fNH" -- weir info 1234 &&
	weir_fails 1 "no such job fNH" -- weir cancel 1234 &&
	weir_fails 1 "no such job fNH" -- weir wait 1234 &&
	weir_fails 1 "no such job fNH" -- weir job priority 1234 20 &&
	weir_fails 1 "no such job fNH" -- weir job raise 1234 &&
	weir_fails 1 "no such job fNH" -- weir job kill 1234 &&
	weir_fails 1 "no such job fNH" -- weir job attach 1234 &&
	weir_fails 1 "no such job fNH" -- weir job status 1234 &&
	weir_fails 1 "no such job fNH" -- weir job eventlog 1234 &&
	weir_fails 1 "no such job fNH" -- weir job eventlog -F 1234 &&
	weir_fails 1 "no such job fNH" -- weir job wait-event 1234 start &&
	weir_fails 1 "no such job fNH" -- weir job info 1234 R
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
