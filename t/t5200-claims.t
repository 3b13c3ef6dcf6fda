#!/bin/sh

test_description='A shepherd killed at each step of the claim protocol: one body at most, an honest result, no slot lost'

. "$(dirname "$0")/sharness.sh"

for step in after-mkdir after-claim after-executing after-exec before-status after-status
do
	test_expect_success "the shepherd dies $step" '
		mkdir $step &&
		(
			cd $step &&
			WEIR_SHEPHERD_DIE_AT=$step@$PWD/dead &&
			export WEIR_SHEPHERD_DIE_AT &&
			weir_instance --runner-arg=--cores=0-1 &&
			{
				py claims shepherd $step
				status=$?
				weir_stop && exit $status
			}
		)
	'
done

test_expect_success 'the node process is killed under running jobs' '
	weir_instance --runner-arg=--cores=0-1 &&
	py claims node
'

test_expect_success 'a signal that comes in one piece with the order ends the job, and its end is noticed' '
	py claims together
'

weir_stop

test_done
