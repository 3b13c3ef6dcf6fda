#!/bin/sh

test_description='weir journal: every event, in one order, from any point on, over a restart'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance with a job that ended and one that waits' '
	weir_instance &&
	ended=$(weir submit true) &&
	weir wait $ended &&
	waits=$(weir submit --urgency=hold true)
'

test_expect_success '--from=all gives all there ever was, --from=active that of active jobs' '
	weir journal --from=all --no-follow --json >all &&
	test "$(jq -r "select(.id == $(weir job id $ended)).entry.name" all | xargs)" = \
		"submit validate depend priority annotations alloc start finish release free clean" &&
	test "$(jq -r "select(.id == $(weir job id $waits)).entry.name" all | xargs)" = "submit validate depend priority" &&
	weir journal --from=active --no-follow --json >active &&
	test "$(jq -r "select(.id).id" active | sort -u)" = "$(weir job id $waits)"
'

test_expect_success 'seq is never used twice, and orders the events of a job as its eventlog does' '
	jq .seq all | sort | uniq -d >twice &&
	test_must_be_empty twice &&
	jq -c "select(.id == $(weir job id $ended) and .log != false and .live != true).entry" all | jq -S -c . >from-journal &&
	weir job eventlog --json $ended | jq -S -c . >from-log &&
	grep -v "\"name\":\"annotations\"" from-journal >stored &&
	test_cmp from-log stored
'

test_expect_success 'events by name, and without some' '
	weir journal --from=all --no-follow --json --allow=submit,clean | jq -r .entry.name | sort | uniq -c | xargs >out &&
	echo "1 clean 2 submit" >expected &&
	test_cmp expected out &&
	weir journal --from=all --no-follow --json --deny=submit,clean >out &&
	! grep -e "\"submit\"" -e "\"clean\"" out &&
	weir journal --from=all --no-follow --json --ids=$waits | jq .id | sort -u >out &&
	weir job id $waits >expected &&
	test_cmp expected out
'

test_expect_success 'behind a cursor nothing comes again (A10)' '
	last=$(jq .seq all | sort -n | tail -n 1) &&
	weir journal --after=$last --no-follow --json >out &&
	test_must_be_empty out &&
	{ weir journal --after=$last --count=1 --json >next & } &&
	follower=$! &&
	weir job priority $waits 0 &&
	wait $follower &&
	test "$(jq -r .entry.name next)" = urgency &&
	test "$(jq .seq next)" -gt $last
'

test_expect_success 'a cursor that cannot be continued is refused with both ends (A11)' '
	weir_fails 1 "1000000" -- weir journal --after=1000000 &&
	weir_fails 1 "0123456789abcdef" -- weir journal --after=3 --epoch=0123456789abcdef
'

test_expect_success 'from now on there is silence until something happens' '
	mkfifo live &&
	{ weir journal --json --allow=submit,start >live & } &&
	follower=$! &&
	exec 7<live &&
	id=$(weir submit true) &&
	read -r first <&7 &&
	test "$(echo "$first" | jq -r .entry.name)" = submit &&
	test "$(echo "$first" | jq -r .id)" = "$(weir job id $id)" &&
	read -r second <&7 &&
	test "$(echo "$second" | jq -r .entry.name)" = start
'

test_expect_success 'a restart of the job-manager: the same stream goes on, nothing twice, nothing left out' '
	kill -KILL $(weir_daemon weir-job-manager) &&
	id=$(weir submit true) &&
	read -r third <&7 &&
	test "$(echo "$third" | jq -r .entry.name)" = submit &&
	test "$(echo "$third" | jq -r .id)" = "$(weir job id $id)" &&
	kill $follower &&
	exec 7<&-
'

test_expect_success 'for people: a line an event' '
	weir journal --from=all --no-follow --ids=$ended >out &&
	test_line_count = 11 out &&
	grep " $ended submit userid=$(id -u) urgency=16" out
'

test_expect_success 'a reader that goes away is no error' '
	weir journal --from=all --json 2>err | head -n 1 >out &&
	test_line_count = 1 out &&
	test_must_be_empty err
'

weir_stop

test_done
