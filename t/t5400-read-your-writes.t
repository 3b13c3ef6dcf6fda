#!/bin/sh

test_description='Read your writes: submit, then ask; never unknown, never old (1,000 times each way)'

. "$(dirname "$0")/sharness.sh"

ROUNDS=${WEIR_RYW_ROUNDS:-1000}

test_expect_success 'an instance' '
	weir_instance
'

test_expect_success "$ROUNDS times submit, then list by id, with a bare client on two connections" '
	py ryw bare $ROUNDS
'

test_expect_success 'pipelined writes are in the very next list, count and look-up' '
	py ryw counts 100
'

test_expect_success "$ROUNDS times weir submit, then weir jobs ID" '
	count=0 &&
	while test $count -lt $ROUNDS
	do
		id=$(weir submit --env="-*" --urgency=$((count % 16)) true) &&
		row=$(weir jobs -n -o "{id} {state} {urgency}" $id) || return 1
		if test "$row" != "$id SCHED $((count % 16))"
		then
			echo "round $count: $id is shown as $row"
			return 1
		fi
		count=$((count + 1))
	done
'

test_expect_success 'a change of urgency is in the very next command' '
	for urgency in 31 0 16 5 30 1 31 0
	do
		weir job urgency $id $urgency &&
		echo $urgency >expected &&
		weir jobs -n -o "{urgency}" $id >met &&
		test_cmp expected met || return 1
	done
'

weir_stop

test_done
