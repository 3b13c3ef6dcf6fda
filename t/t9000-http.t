#!/bin/sh

test_description='HTTP with curl: who is let in, parameters, errors, forms of a body, waiting, the end'

. "$(dirname "$0")/sharness.sh"

# get PATH [CURL OPTIONS]: the body, with the owner's token
get () {
	get_path=$1
	shift
	curl -sS --max-time 60 -H "X-Nomad-Token: $(cat state/http-token)" "$@" "http://$(cat state/http)$get_path"
}

# head PATH [CURL OPTIONS]: status and headers, in lower case
head_of () {
	get "$@" -o /dev/null -D - | tr -d "\r" | tr A-Z a-z
}

# metric LINE: waits until the metrics hold this line
metric () {
	metric_until=$(($(date +%s) + 60))
	until get /metrics | grep -q -x -F "$1"
	do
		test $(date +%s) -lt $metric_until || return 1
	done
}

test_expect_success 'an instance says where its page is, and keeps its token to itself' '
	weir_instance -s 2 --runner-arg=--cores=0-1 &&
	grep -x "127.0.0.1:[0-9]*" state/http &&
	test "$(stat -c %a state/http-token)" = 600 &&
	test $(wc -c <state/http-token) = 65 &&
	weir start --help | grep "STATEDIR/http"
'

test_expect_success 'without a token nothing of a job is shown' '
	id=$(LC_ALL=C weir submit --job-name=shop sleep 600) &&
	for path in /v1/jobs/statuses /v1/job/$id /v1/event/stream /metrics /nope
	do
		curl -s -w " %{http_code}" http://$(cat state/http)$path >out &&
		test "$(cat out)" = "Permission denied 403" || return 1
	done &&
	curl -s -o /dev/null -w "%{http_code}" -H "X-Nomad-Token: $(tr 0-9 1-90 <state/http-token)" \
		http://$(cat state/http)/v1/jobs >out && test "$(cat out)" = 403 &&
	curl -s -H "Authorization: Bearer $(cat state/http-token)" http://$(cat state/http)/v1/jobs | jq -e ".[0].ID == \"$id\"" &&
	curl -s http://$(cat state/http)/healthz | jq -e .ok
'

test_expect_success 'a page of elsewhere is kept out by name' '
	get /v1/jobs -H "Host: evil.example" >out && grep "is not this server" out &&
	get /v1/jobs -H "Origin: http://evil.example" >out && grep "is not this server" out &&
	port=$(sed "s/.*://" state/http) &&
	curl -s -H "X-Nomad-Token: $(cat state/http-token)" http://localhost:$port/v1/jobs | jq -e "length == 1"
'

test_expect_success 'a token becomes a cookie' '
	get /v1/weir/session -X POST -c jar -o /dev/null -w "%{http_code}" >out && test "$(cat out)" = 204 &&
	grep "#HttpOnly_127.0.0.1" jar &&
	! grep -F "$(cat state/http-token)" jar &&
	curl -s -b jar http://$(cat state/http)/v1/jobs | jq -e "length == 1"
'

test_expect_success 'every read has its headers' '
	get "/v1/jobs?after=$(weir stats --json | jq ".[\"job-manager\"].seq")" >/dev/null &&
	for path in /v1/jobs/statuses /v1/jobs /v1/job/$id /v1/job/$id/summary /v1/job/$id/allocations /v1/nodes /v1/deployments
	do
		head_of $path >out &&
		grep -q -x "http/1.1 200 ok" out && grep -q -x "content-type: application/json" out &&
		grep -q -x "x-nomad-index: [0-9]*" out && grep -q -x "x-nomad-lastcontact: 0" out &&
		grep -q -x "x-nomad-knownleader: true" out || return 1
	done
'

test_expect_success 'bad requests are told what is wrong, in plain text without a newline' '
	try () {
		get "$1" -w " %{http_code} %{content_type}" >out &&
		test "$(cat out)" = "$2 text/plain; charset=utf-8"
	} &&
	try "/v1/jobs/statuses?index=x" "Invalid index 400" &&
	try "/v1/jobs/statuses?wait=10" "Invalid wait time 400" &&
	try "/v1/jobs/statuses?region=eu&index=x" "No path to region 500" &&
	try "/v1/job/f1111/summary" "job not found 404" &&
	get /v1/jobs/statuses -X PUT -w " %{http_code}" >out && test "$(cat out)" = "Invalid method 405" &&
	get /v1/jobs/ -w "%{http_code}" >out && test "$(cat out)" = 404 &&
	get "/v1/jobs/statuses?filter=ID+%3D%3D+my-job" >out && grep "failed to read filter expression" out
'

test_expect_success 'a body comes indented and compressed when asked for' '
	get /v1/jobs/statuses >plain &&
	get "/v1/jobs/statuses?pretty" >pretty &&
	test $(wc -l <plain) = 0 && test $(wc -l <pretty) -gt 20 &&
	jq -S . plain >a && jq -S . pretty >b && test_cmp a b &&
	get /v1/jobs/statuses -H "Accept-Encoding: gzip" >zipped &&
	gzip -dc zipped >back && test_cmp plain back &&
	head_of /v1/jobs/statuses --compressed >out && grep "content-encoding: gzip" out && grep "vary: accept-encoding" out
'

test_expect_success 'a query waits for its job, and for no other' '
	other=$(LC_ALL=C weir submit --urgency=hold true) &&
	weir job wait-event $id start >/dev/null &&
	get "/v1/jobs?after=$(weir stats --json | jq ".[\"job-manager\"].seq")" >/dev/null &&
	body="{\"jobs\":[{\"id\":\"$id\"}]}" &&
	index=$(head_of /v1/jobs/statuses -d "$body" | sed -n "s/x-nomad-index: //p") &&
	{ get "/v1/jobs/statuses?index=$index" -d "$body" >woken & } &&
	woken=$! &&
	metric "weir_http_waiting 1" &&
	weir job urgency $other 20 &&
	get "/v1/jobs?after=$(weir stats --json | jq ".[\"job-manager\"].seq")" >/dev/null &&
	metric "weir_http_waiting 1" &&
	weir cancel $id &&
	wait $woken &&
	jq -e ".[0] | .ID == \"$id\" and .Stop == true" woken
'

test_expect_success 'a query whose time is up is answered with what there is' '
	index=$(head_of /v1/jobs/statuses | sed -n "s/x-nomad-index: //p") &&
	get "/v1/jobs/statuses?index=$index&wait=100ms" -w "%{http_code}" >out &&
	grep "200$" out && sed "s/200$//" out | jq -e "length == 2"
'

test_expect_success 'the description is served, and names every path that is' '
	get /openapi.json | jq -e ".openapi == \"3.1.0\" and .paths[\"/v1/jobs/statuses\"].post and (.paths | length) > 30"
'

test_expect_success 'an address that another has is said before anything starts' '
	weir_fails 1 "$(cat state/http)" "in use" "--http=off" -- weir start --statedir="$PWD/two" --http=$(cat state/http) &&
	weir_fails 1 "192.0.2.1:80" "choose another address" -- weir start --statedir="$PWD/two" --http=192.0.2.1:80 &&
	weir_fails 2 "such as 127.0.0.1:8080, or off" -- weir start --statedir="$PWD/two" --http=8080
'

test_expect_success 'at the end everybody who waits is answered' '
	index=$(head_of /v1/jobs/statuses | sed -n "s/x-nomad-index: //p") &&
	{ get "/v1/jobs/statuses?index=$index" -w " %{http_code}" >waited & } &&
	waiter=$! &&
	{ get "/v1/jobs/statuses/stream" >stream & } &&
	reader=$! &&
	metric "weir_http_waiting 1" &&
	metric "weir_http_streams 1" &&
	cp state/http before &&
	weir_stop &&
	wait $waiter && wait $reader &&
	grep " 200$" waited && sed "s/ 200$//" waited | jq -e "length == 2" &&
	grep "^event: page" stream
'

test_expect_success 'the next life has the same address and the same token; HTTP can be off, or open' '
	cp state/http-token token.before &&
	weir_instance &&
	test_cmp before state/http && test_cmp token.before state/http-token &&
	weir_stop &&
	weir_instance --http-open &&
	curl -s http://$(cat state/http)/v1/jobs | jq -e "length == 2" &&
	weir_stop &&
	weir_instance --http=off &&
	test_expect_code 7 curl -s http://$(cat state/http)/healthz &&
	weir_stop
'

test_expect_success 'a private instance has HTTP, too' '
	weir start sh -c "d=\${WEIR_URI#local://}; d=\${d%/socket}; curl -s -H \"X-Nomad-Token: \$(cat \$d/http-token)\" http://\$(cat \$d/http)/v1/jobs" >out &&
	test "$(cat out)" = "[]"
'

test_done
