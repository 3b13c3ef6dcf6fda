#!/bin/sh

test_description='Words that mean something else than was typed: ids that are none, commands of a group, patterns, queues, keys'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'a text that is no job id is a wrong command line, whatever the command' '
	weir_instance &&
	for command in "cancel" "jobs" "info" "wait" "job wait" "job raise" "job kill" "kill" "job attach" "job status" "job eventlog" "job id" "job purge" \
		"job info abc" "job wait-event abc"
	do
		weir_fails 2 "\"abc\"" malformed -- weir $command abc || return 1
	done &&
	weir_fails 2 "\"abc\"" malformed -- weir job priority abc 5 &&
	echo abc | test_expect_code 2 weir jobs - 2>err && grep malformed err &&
	echo abc | test_expect_code 2 weir cancel - 2>err && grep malformed err
'

test_expect_success 'a pipe that names no job: the line names the command' '
	weir jobs -n -f completed | weir cancel - 2>err &&
	grep "weir: cancel: standard input named no job" err &&
	weir job priority - 5 </dev/null 2>err &&
	grep "weir: job priority: standard input named no job" err
'

test_expect_success 'a command of a group, typed without it: the hint names the whole' '
	weir_fails 2 "'\''weir job attach'\''" -- weir attach 4711 &&
	weir_fails 2 "'\''weir job priority'\''" -- weir priority 4711 5 &&
	weir_fails 2 "'\''weir job priority'\''" -- weir urgency 4711 5 &&
	weir_fails 2 "'\''weir queue stop'\''" -- weir stop
'

test_expect_success 'a pattern is refused, or named, rather than found nowhere' '
	weir_fails 2 "name:s*" "no patterns" -- weir jobs -f "name:s*" &&
	weir jobs -n --name="s*" >out 2>err && grep "no patterns" err &&
	weir submit --job-name="s*" true >id && weir wait $(cat id) &&
	test "$(weir jobs -n -f "name:\"s*\"" -o "{id}")" = $(cat id)
'

test_expect_success 'a queue that is not there' '
	weir_fails 1 "there is no queue '\''nosuch'\''" "weir queue status" -- weir submit -q nosuch true &&
	weir_fails 1 "there is no queue '\''nosuch'\''" -- weir run -q nosuch true
'

test_expect_success 'a submit key is shown with its job' '
	weir submit --key="a key" true >id &&
	weir info $(cat id) | grep -x "key        a key" &&
	test "$(weir job info $(cat id) key)" = "a key" &&
	test "$(weir info --json $(cat id) | jq -r .jobs[0].key)" = "a key" &&
	weir submit true >id &&
	test "$(weir info --json $(cat id) | jq -r .jobs[0].key)" = null &&
	weir_fails 1 "key: key not found" -- weir job info $(cat id) key
'

test_expect_success 'a submit key does not compare the limits of the shell' '
	id=$(weir submit --key=limits true) &&
	test "$(ulimit -c 0; ulimit -n 200; weir submit --key=limits true)" = $id &&
	weir_fails 1 "another jobspec" -- weir submit --key=limits false
'

test_expect_success 'an error says nothing twice' '
	weir_fails 1 "No such file" -- weir store backup nosuch/copy &&
	test "$(grep -o "No such file" fails.err | wc -l)" = 1
'

weir_stop

test_done
