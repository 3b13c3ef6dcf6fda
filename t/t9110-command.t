#!/bin/sh

test_description='What a job runs is in its body over HTTP for who may know it'

. "$(dirname "$0")/sharness.sh"

# http PATH [HEADER]: the body of a request
http () {
	curl -s -f ${2:+-H "$2"} "http://$(cat state/http)$1"
}

# config PATH [HEADER]: the Config of the first task in it
config () {
	http "$@" | jq -c '(.Versions[0] // .).TaskGroups[0].Tasks[0].Config'
}

test_expect_success 'an instance that needs no token' '
	weir_instance --http-open &&
	job=$(weir submit sh -c "exit 0" --secret) &&
	weir wait $job &&
	token="X-Nomad-Token: $(cat state/http-token)" &&
	config="{\"command\":\"sh\",\"args\":[\"-c\",\"exit 0\",\"--secret\"]}"
'

test_expect_success 'the owner sees the command' '
	test "$(config /v1/job/$job "$token")" = "$config" &&
	test "$(config /v1/job/$job/versions "$token")" = "$config" &&
	http "/v1/job/$job?pretty" "$token" | grep "\"--secret\""
'

test_expect_success 'who shows no token does not, in no body' '
	test "$(config /v1/job/$job)" = null &&
	test "$(config /v1/job/$job/versions)" = null &&
	for path in job/$job job/$job/summary jobs jobs/statuses allocations nodes
	do
		http /v1/$path >body && ! grep -e --secret body || return 1
	done
'

test_expect_success 'a job-manager that does not answer costs the body its command and nothing else' '
	manager=$(weir_daemon weir-job-manager) &&
	kill -STOP $manager &&
	cleanup "kill -CONT $manager 2>/dev/null || :" &&
	test "$(config /v1/job/$job "$token")" = null &&
	test "$(http /v1/job/$job "$token" | jq -r .Status)" = dead &&
	kill -CONT $manager &&
	until test "$(config /v1/job/$job "$token")" = "$config"
	do
		:
	done
'

weir_stop

test_done
