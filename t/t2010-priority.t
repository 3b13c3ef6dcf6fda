#!/bin/sh

test_description='weir job priority and urgency: the order changes at once, for all at once'

. "$(dirname "$0")/sharness.sh"

# pending: ids of the waiting jobs, in the order of the listing
pending () {
	weir jobs -n -f pending -o "{id}"
}

test_expect_success 'an instance of one core, and it is busy' '
	weir_instance --runner-arg=--cores=0 &&
	mkfifo hold &&
	weir submit --job-name=busy sh -c "cat hold" >busy &&
	weir job wait-event --quiet $(cat busy) start
'

test_expect_success 'jobs of equal priority wait in the order of their submission, and a changed one comes back to its place (A01)' '
	a=$(weir submit --job-name=a true) &&
	b=$(weir submit --job-name=b true) &&
	c=$(weir submit --job-name=c true) &&
	printf "%s\n" $a $b $c >abc &&
	printf "%s\n" $c $a $b >cab &&
	pending >actual && test_cmp abc actual &&
	weir job urgency $c 17 &&
	pending >actual && test_cmp cab actual &&
	weir job urgency $c default &&
	pending >actual && test_cmp abc actual
'

test_expect_success 'old values are told when asked for' '
	weir job priority -v $a 20 >out &&
	echo "$a: 16 -> 20" >expected &&
	test_cmp expected out &&
	weir job priority --json $a $b 5 >json &&
	test "$(jq -c "[.changed[] | [.old_urgency, .urgency]]" json)" = "[[20,5],[16,5]]" &&
	test "$(jq ".seq > 0 and (.errors == [])" json)" = true
'

test_expect_success 'hold keeps a job from starting, expedite goes before all' '
	weir job urgency $a hold &&
	weir job urgency $b expedite &&
	printf "%s\n" $b $c $a >expected &&
	pending >actual && test_cmp expected actual &&
	weir jobs -n -o "{urgency} {priority} {contextual_info}" $a >held &&
	echo "0 0 held" >expected &&
	test_cmp expected held &&
	test "$(weir jobs -n -o "{priority}" $b)" = 4294967295
'

test_expect_success 'the valid ids are changed, the others named, and the status says so' '
	test_expect_code 1 weir job priority $a 1234 $(cat busy) $c 9 2>err &&
	test "$(weir jobs -n -o "{urgency}" $a $c | xargs)" = "9 9" &&
	test_line_count = 2 err &&
	grep "no such job 1234 (fNH)" err &&
	grep "$(cat busy)" err
'

test_expect_success 'the urgency of a running job is fixed: the line says so, the daemon goes on (A02)' '
	weir_daemon weir-job-manager >pid &&
	weir_fails 1 "$(cat busy)" "resources" -- weir job urgency $(cat busy) 31 &&
	weir_daemon weir-job-manager >now &&
	test_cmp pid now &&
	test "$(weir jobs -n -o "{urgency}" $(cat busy))" = 16 &&
	weir job eventlog --json $(cat busy) | jq -r .name >events &&
	! grep urgency events &&
	weir submit --quiet --urgency=hold true
'

test_expect_success 'many at once are one request' '
	weir submit --bcc=1-50 --urgency=hold true >many &&
	weir stats --json >before &&
	weir job priority - 3 <many &&
	weir stats --json >after &&
	for counter in .manager.commits .manager.reorder_passes
	do
		test $(($(jq ".\"job-manager\"$counter" after) - $(jq ".\"job-manager\"$counter" before))) -le 1 || return 1
	done &&
	test $(($(jq ".\"job-list\".journal.reorder_passes" after) - $(jq ".\"job-list\".journal.reorder_passes" before))) = 1 &&
	weir jobs -n -o "{urgency}" - <many | sort -u >urgency &&
	echo 3 >expected &&
	test_cmp expected urgency
'

test_expect_success 'they start in that order' '
	weir job priority $c 30 &&
	echo go >hold &&
	weir wait $(cat busy) $a $b $c &&
	weir journal --from=all --no-follow --json --allow=start --ids=$a,$b,$c | jq -s -r "sort_by(.seq)[].id" >dec &&
	weir job id --to=f58 - <dec >started &&
	printf "%s\n" $b $c $a >expected &&
	test_cmp expected started
'

weir_stop

test_done
