#!/bin/sh

test_description='weir submit --key: the same key gives the same job, whatever was lost and whatever died'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance' '
	weir_instance
'

test_expect_success 'the same key gives the first id, also when that job has ended; JSON says that it was known' '
	first=$(weir submit --key=one true) &&
	weir job wait-event --timeout=60 $first clean &&
	test "$(weir submit --key=one true)" = $first &&
	weir submit --key=one --json true >json &&
	jq -e ".known and .seq > 0 and .id == $(weir job id --to=dec $first)" json &&
	weir submit --key=two --json true | jq -e ".known | not"
'

test_expect_success 'another environment is no other job, another command is: refused, and the job named' '
	test "$(ANOTHER=1 weir submit --key=one true)" = $first &&
	weir_fails 1 "${first#f}" "key '\''one'\''" "another jobspec" -- weir submit --key=one false
'

test_expect_success 'one key for many jobs makes no sense, a key for each does' '
	weir_fails 2 "--key" "{cc}" -- weir submit --cc=1-3 --key=many true &&
	weir submit --cc=1-3 --key="many {cc}" true >ids &&
	weir submit --bcc=2-4 --key="many {cc}" true >again &&
	sed -n 2,3p ids >expected &&
	sed -n 1,2p again >known &&
	test_cmp expected known &&
	test $(sort -u ids again | wc -l) = 4
'

test_expect_success 'a key that is none is refused before anything is sent' '
	weir_fails 2 "1 to 255 bytes" -- weir submit --key= true &&
	weir_fails 2 "1 to 255 bytes" "256" -- weir submit --key=$(printf "%0256d" 0) true &&
	long=$(printf "%0255d" 0) &&
	test "$(weir submit --key=$long true)" = "$(weir submit --key=$long true)"
'

test_expect_success 'after kill -9 of the job-manager and after a stop and a start it is the same job' '
	py daemons kill9 weir-job-manager &&
	test "$(weir submit --key=one true)" = $first &&
	weir_stop &&
	weir_instance &&
	test "$(weir submit --key=one true)" = $first &&
	weir queue disable -m "no more" &&
	test "$(weir submit --key=one true)" = $first &&
	weir_fails 1 "no more" -- weir submit --key=three true &&
	weir queue enable
'

test_expect_success 'a purged job gives its key free' '
	weir job purge --force $first &&
	second=$(weir submit --key=one true) &&
	test $second != $first &&
	test "$(weir submit --key=one true)" = $second &&
	weir job wait-event --timeout=60 $second clean
'

test_expect_success 'an answer that was lost: the second attempt gives the job of the first, and weir makes it by itself' '
	weir_stop && mkdir lost && cd lost && weir_instance &&
	py keys lost
'

test_expect_success 'many connections at once: one job' '
	py keys at-once
'

test_expect_success 'two thousand, pipelined, with a kill -9 between: one job a key, in their order' '
	py keys many 2000
'

weir_stop
test_done
