#!/bin/sh

test_description='weir job prioritize: absolute priorities by id, from a file and by query; they stay until the urgency changes'

. "$(dirname "$0")/sharness.sh"

# pending: ids of the waiting jobs, in the order of the listing
pending () {
	weir jobs -n -f pending -o "{id}"
}

# pri ID…: their priorities, in the order of the ids
pri () {
	weir jobs -n -o "{priority}" "$@" | xargs
}

test_expect_success 'an instance of one core, and it is busy' '
	weir_instance --runner-arg=--cores=0 &&
	mkfifo hold &&
	weir submit --job-name=busy sh -c "cat hold" >busy &&
	weir job wait-event --quiet $(cat busy) start &&
	a=$(weir submit --job-name=a true) &&
	b=$(weir submit --job-name=b true) &&
	c=$(weir submit --job-name=c true) &&
	h=$(weir submit --job-name=h --urgency=hold true)
'

test_expect_success 'the order follows at once, old values are told when asked for' '
	weir job prioritize -v $c 100000 >out &&
	echo "$c: 16 -> 100000" >expected &&
	test_cmp expected out &&
	weir job prioritize $b 99999 &&
	printf "%s\n" $c $b $a $h >expected &&
	pending >actual && test_cmp expected actual &&
	test "$(weir jobs -n -o "{urgency} {priority}" $c)" = "16 100000"
'

test_expect_success 'it is one event, no change of the urgency; and none if it is that already' '
	weir job eventlog --json $c | jq -r .name | tail -n 2 | xargs >names &&
	grep -x "priority priority" names &&
	weir job eventlog --json $c | wc -l >before &&
	weir job prioritize -v $c 100000 >out &&
	echo "$c: 100000 -> 100000" >expected &&
	test_cmp expected out &&
	weir job eventlog --json $c | wc -l >after &&
	test_cmp before after
'

test_expect_success 'the valid ids are set, the others named, and the status says so' '
	test_expect_code 1 weir job prioritize $a 1234 $(cat busy) $h $b 70 2>err &&
	test "$(pri $a $b $h)" = "70 70 0" &&
	test_line_count = 3 err &&
	grep "no such job 1234 (fNH)" err &&
	grep "$(cat busy).*resources" err &&
	grep "$h.*held" err
'

test_expect_success 'the document has the same keys whatever came of it' '
	test_expect_code 1 weir job prioritize --json $a 1234 71 >json 2>/dev/null &&
	test "$(jq -c "[.changed[] | [.old_priority, .priority]]" json)" = "[[70,71]]" &&
	test "$(jq -c "[.errors[] | [.id, .errnum]]" json)" = "[[1234,22]]" &&
	weir job prioritize --json $a default >json &&
	test "$(jq -c "[.changed[] | [.old_priority, .priority]]" json)" = "[[71,null]]" &&
	test_expect_code 2 weir job prioritize --json $a x >json 2>/dev/null &&
	test "$(jq -c keys json)" = "[\"changed\",\"errors\",\"passed_over\",\"seq\"]"
'

test_expect_success 'a file has a line for each; a wrong line is named and nothing is set' '
	printf "# all of them\n%s 30\n%s,40 # b\n\n%s default\n" $a $b $c >file &&
	weir job prioritize --from file &&
	test "$(pri $a $b $c)" = "30 40 16" &&
	printf "%s 1\n" $a $b $c | weir job prioritize --from - &&
	test "$(pri $a $b $c)" = "1 1 1" &&
	printf "%s 5\n%s high\n" $a $b >wrong &&
	weir_fails 2 "wrong, line 2" high "0 to 4294967295" -- weir job prioritize --from wrong &&
	test "$(pri $a $b)" = "1 1" &&
	weir_fails 1 nosuch -- weir job prioritize --from nosuch
'

test_expect_success 'a query sets those that wait; steps count from what each has and hold none' '
	weir job prioritize --query name:a,b,c --set 100 &&
	weir job prioritize --query "name:a or name:b" --set +50 &&
	test "$(pri $a $b $c)" = "150 150 100" &&
	weir job prioritize --query pending --set=-120 --json >json &&
	test "$(pri $a $b $c $h)" = "30 30 1 0" &&
	test "$(jq -c "[(.changed | length), .passed_over]" json)" = "[3,1]" &&
	weir job prioritize --query name:nobody --set 5 2>err &&
	grep "no waiting job meets" err &&
	test "$(pri $(cat busy))" = 16
'

test_expect_success 'they stay over a restart of the job-manager and of its listing' '
	weir job prioritize $a 7000 &&
	weir_daemon weir-job-manager >pid &&
	kill -9 $(cat pid) &&
	weir jobs --fresh >/dev/null &&
	test "$(pri $a)" = 7000 &&
	weir_daemon weir-job-info >pid &&
	kill -9 $(cat pid) &&
	weir jobs --fresh >/dev/null &&
	test "$(pri $a)" = 7000
'

test_expect_success 'the next change of the urgency ends it, also one to the same value' '
	weir job urgency $a 16 &&
	test "$(pri $a)" = 16 &&
	weir job urgency $c expedite &&
	weir_fails 1 expedited -- weir job prioritize $c 5
'

test_expect_success 'many at once are one request, and one reordering on each side' '
	weir submit --bcc=1-50 --job-name=many true >many &&
	weir stats --json >before &&
	weir job prioritize - 3 <many &&
	weir stats --json >after &&
	for counter in .manager.commits .manager.reorder_passes
	do
		test $(($(jq ".\"job-manager\"$counter" after) - $(jq ".\"job-manager\"$counter" before))) -le 1 || return 1
	done &&
	test $(($(jq ".\"job-list\".journal.reorder_passes" after) - $(jq ".\"job-list\".journal.reorder_passes" before))) = 1 &&
	weir jobs -n -o "{priority}" - <many | sort -u >priority &&
	echo 3 >expected &&
	test_cmp expected priority
'

test_expect_success 'completions offer it' '
	weir completions bash >bash && grep -q prioritize bash
'

test_expect_success 'they start in that order' '
	weir job urgency $c default &&
	weir job prioritize $b 4294967295 &&
	weir job prioritize $c 500 &&
	weir job prioritize $a 400 &&
	echo go >hold &&
	weir wait $(cat busy) $a $b $c &&
	weir journal --from=all --no-follow --json --allow=start --ids=$a,$b,$c | jq -s -r "sort_by(.seq)[].id" >dec &&
	weir job id --to=f58 - <dec >started &&
	printf "%s\n" $b $c $a >expected &&
	test_cmp expected started
'

weir_stop

test_done
