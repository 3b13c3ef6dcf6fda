#!/bin/sh

test_description='weir job clients and weir job allocs: what a job is on every node, and why'

. "$(dirname "$0")/sharness.sh"

# A job on every node: on the first it fails, on the third it goes on until it is told.
test_expect_success 'an instance of four nodes, one of them drained, and a job on all others' '
	weir_instance -s 4 &&
	weir resource drain --quiet 1 fan &&
	mkfifo hold &&
	id=$(weir submit --type=sysbatch sh -c "test \$WEIR_TASK_RANK != 0 || exit 3; cat hold") &&
	weir job wait-event --quiet $id alloc-status &&
	weir resource status --json | jq -r ".nodes[].name" >names
'

test_expect_success 'a line a node, with status and reason, and one of counts' '
	weir job clients $id >out &&
	test_line_count = 6 out &&
	head -n 1 out | grep "^NODE  *STATUS  *ALLOCS  *MODIFIED  *REASON$" &&
	sed -n 2p out | grep "^$(sed -n 1p names)  *failed  *1 .*exit code 3$" &&
	sed -n 3p out | grep "^$(sed -n 2p names)  *notScheduled  *0  *drained since .*fan$" &&
	sed -n 4p out | grep "^$(sed -n 3p names)  *running  *1 " &&
	echo "4 nodes: 1 notScheduled, 2 running, 1 failed" >expected &&
	tail -n 1 out >counts && test_cmp expected counts
'

test_expect_success 'only some of them' '
	weir job clients --status=failed $id >out && test_line_count = 3 out &&
	weir_fails 2 "nosuch" "notScheduled" -- weir job clients --status=nosuch $id
'

test_expect_success 'one JSON document, the same keys' '
	weir job clients --json $id >out && test "$(jq -s length out)" = 1 &&
	test "$(jq -r "keys_unsorted | join(\" \")" out)" = "id f58 clients counts seq stale errors" &&
	test "$(jq -r ".clients[] | keys_unsorted | join(\" \")" out | sort -u)" = "node status reason allocs created modified" &&
	jq -e ".id == $(weir job id $id) and .counts.failed == 1 and (.counts | length) == 9 and .seq > 0 and .stale == null" out &&
	test_expect_code 1 weir job clients --json 4711 >out 2>err &&
	jq -e ".clients == [] and .errors[0].errnum == 2" out
'

test_expect_success 'allocations: one for each node it got' '
	weir job allocs $id >out && test_line_count = 4 out &&
	sed -n 2p out | grep "^ *0  $(sed -n 1p names)  task .* failed .* exit code 3$" &&
	sed -n 3p out | grep "^ *2  $(sed -n 3p names)  task .* running  20[0-9T:+-]*$" &&
	weir job allocs --json $id | jq -e "[.allocs[].status] == [\"failed\",\"running\",\"running\"] and .allocs[0].wait_status == 768" &&
	pending=$(weir submit --urgency=hold true) &&
	weir job allocs --json $pending | jq -e ".allocs == [] and .errors == []" &&
	weir job clients --json $pending | jq -e "[.clients[].status] | unique == [\"queued\"]" &&
	weir_fails 1 "no such job 4711" -- weir job allocs 4711 &&
	weir_fails 1 "no such job 4711" -- weir job clients 4711
'

test_expect_success '--watch shows it anew as it changes, and ends with the job' '
	mkfifo shown &&
	{ weir job clients --watch --json $id >shown & } &&
	pid=$! &&
	{
		read -r first &&
		echo "$first" | jq -e ".counts.running == 2" &&
		weir cancel $id &&
		cat >rest
	} <shown &&
	wait $pid &&
	tail -n 1 rest | jq -e ".counts.complete == 2 and .counts.failed == 1" &&
	weir job clients $id >out &&
	grep "complete .*canceled$" out
'

weir_stop

test_expect_success 'no instance' '
	weir_fails 1 "weir start" -- weir job clients $id &&
	test_expect_code 1 weir job allocs --json $id >out 2>err && jq -e ".allocs == [] and (.errors | length) == 1" out
'

test_done
