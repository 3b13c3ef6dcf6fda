#!/bin/sh

test_description='Two of four nodes die while a job runs on all of them: statuses, summary and weir job clients say the same'

. "$(dirname "$0")/sharness.sh"

# get PATH [CURL OPTIONS]: the body, with the owner's token
get () {
	get_path=$1
	shift
	curl -sS --max-time 60 -H "X-Nomad-Token: $(cat state/http-token)" "$@" "http://$(cat state/http)$get_path"
}

# index PATH [CURL OPTIONS]: the index of its body, which goes to the file body
index () {
	get "$@" -o body -D - | tr -d "\r" | sed -n "s/^x-nomad-index: //Ip"
}

# kill_node RANK: the process of a node, as its lock says
kill_node () {
	kill -9 $(cat state/node-*-$1.lock)
}

# counts: what each of the three says of the job, as one line: how many nodes have which status
by_command () {
	weir job clients --json $id | jq -S -c ".counts | with_entries(select(.value > 0))"
}

by_summary () {
	get /v1/job/$id/summary | jq -S -c ".ClientStatus.byStatus | map_values(length) | with_entries(select(.value > 0))"
}

by_statuses () {
	get /v1/jobs/statuses -d "{\"jobs\":[{\"id\":\"$id\"}]}" |
		jq -S -c "[.[0].Allocs[].ClientStatus] | group_by(.) | map({key: .[0], value: length}) | from_entries"
}

test_expect_success 'a job on four nodes' '
	weir_instance -s 4 --runner-arg=--cores=0-1 &&
	id=$(LC_ALL=C weir submit --type=sysbatch sleep 600) &&
	weir job wait-event --quiet $id start &&
	get "/v1/jobs?after=$(weir stats --json | jq ".[\"job-manager\"].seq")" >out &&
	until test "$(by_statuses)" = "{\"running\":4}"
	do
		:
	done &&
	test "$(by_summary)" = "{\"running\":4}" && test "$(by_command)" = "{\"running\":4}"
'

test_expect_success 'two of them die: who waits for the job is told, step by step, until both are lost' '
	body="{\"jobs\":[{\"id\":\"$id\"}]}" &&
	now=$(index /v1/jobs/statuses -d "$body") &&
	kill_node 1 && kill_node 3 &&
	while
		now=$(index "/v1/jobs/statuses?index=$now" -d "$body") &&
		jq -c "[.[0].Allocs[].ClientStatus]" body >>steps &&
		test "$(tail -n 1 steps)" != "[\"running\",\"lost\",\"running\",\"lost\"]"
	do
		:
	done &&
	grep unknown steps
'

test_expect_success 'all three agree, and again when the nodes are back' '
	test "$(by_statuses)" = "{\"lost\":2,\"running\":2}" &&
	test "$(by_summary)" = "{\"lost\":2,\"running\":2}" &&
	test "$(by_command)" = "{\"lost\":2,\"running\":2}" &&
	until test "$(get /v1/nodes | jq -c "[.[].Status] | unique")" = "[\"ready\"]"
	do
		:
	done &&
	test "$(by_statuses)" = "{\"lost\":2,\"running\":2}" &&
	test "$(by_summary)" = "{\"lost\":2,\"running\":2}" &&
	test "$(by_command)" = "{\"lost\":2,\"running\":2}" &&
	get /v1/job/$id/summary | jq -e "(.ClientStatus.reasons | length) >= 2 and .Summary.task.Running == 2 and .Summary.task.Lost == 2"
'

test_expect_success 'it is cancelled: the others are complete, the lost ones stay lost' '
	weir cancel $id &&
	weir job wait-event --quiet $id clean &&
	get "/v1/jobs?after=$(weir stats --json | jq ".[\"job-manager\"].seq")" >out &&
	test "$(by_statuses)" = "{\"complete\":2,\"lost\":2}" &&
	test "$(by_summary)" = "{\"complete\":2,\"lost\":2}" &&
	test "$(by_command)" = "{\"complete\":2,\"lost\":2}"
'

weir_stop

test_done
