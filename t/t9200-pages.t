#!/bin/sh

test_description='pages of statuses with curl: every job once at any size, what wakes who waits, and what does not'

. "$(dirname "$0")/sharness.sh"

# get PATH [CURL OPTIONS]: the body, with the owner's token
get () {
	get_path=$1
	shift
	curl -sS --max-time 60 -H "X-Nomad-Token: $(cat state/http-token)" "$@" "http://$(cat state/http)$get_path"
}

# header NAME PATH [CURL OPTIONS]: the value of one header
header () {
	header_name=$1
	shift
	get "$@" -o /dev/null -D - | tr -d "\r" | sed -n "s/^$header_name: //Ip"
}

# metric NAME: its value
metric () {
	get /metrics | sed -n "s/^$1 //p"
}

# until_metric NAME VALUE: waits until it has this value
until_metric () {
	until test "$(metric "$1")" = "$2"
	do
		:
	done
}

# caught_up: waits until the list has all that happened
caught_up () {
	get "/v1/jobs?after=$(weir stats --json | jq ".[\"job-manager\"].seq")" >/dev/null
}

# watch FILE PATH [CURL OPTIONS]: waits for another body in the background; $pid
watch () {
	watch_file=$1
	watch_path=$2
	shift 2
	watch_index=$(header x-nomad-index "$watch_path" "$@") &&
	watch_waiting=$(metric weir_http_waiting) &&
	{ get "$watch_path&index=$watch_index" "$@" >$watch_file & } &&
	pid=$! &&
	until_metric weir_http_waiting $((watch_waiting + 1))
}

test_expect_success 'an instance with twenty jobs that wait' '
	weir_instance &&
	weir queue stop --quiet &&
	for n in $(seq 20)
	do
		LC_ALL=C weir submit --job-name=job$n true || return 1
	done >ids &&
	job () {
		sed -n "$1p" ids
	} &&
	caught_up
'

test_expect_success 'paging at any size shows every job once, also when all changed in one commit' '
	weir job urgency $(cat ids) 20 >/dev/null &&
	weir cancel $(head -n 12 ids) &&
	caught_up &&
	sort ids >expected &&
	for size in 1 2 3 7 19 20 21
	do
		for reverse in false true
		do
			token= &&
			>met &&
			while
				path="/v1/jobs/statuses?per_page=$size&reverse=$reverse&next_token=$token" &&
				get "$path" | jq -r ".[].ID" >>met &&
				token=$(header x-nomad-nexttoken "$path") &&
				test -n "$token"
			do
				:
			done
			sort met >sorted && test_cmp expected sorted || return 1
		done
	done
'

test_expect_success 'what happens off the page wakes nobody, what happens on it does, once' '
	watch first "/v1/jobs/statuses?per_page=3" && first=$pid &&
	token=$(header x-nomad-nexttoken "/v1/jobs/statuses?per_page=3") &&
	watch second "/v1/jobs/statuses?per_page=3&next_token=$token" && second=$pid &&
	woken=$(metric weir_http_woken_total) &&
	last=$(get "/v1/jobs/statuses?per_page=1&reverse=true" | jq -r ".[0].ID") &&
	weir job urgency $last 7 >/dev/null &&
	caught_up &&
	test "$(metric weir_http_waiting)" = 2 && test "$(metric weir_http_woken_total)" = $woken &&
	page=$(get "/v1/jobs/statuses?per_page=3" | jq -r ".[1].ID") &&
	new=$(LC_ALL=C weir submit --job-name=new true) &&
	wait $first &&
	jq -e "length == 3 and .[0].ID == \"$new\" and .[2].ID == \"$page\"" first &&
	test "$(metric weir_http_waiting)" = 1 && test "$(metric weir_http_woken_total)" = $((woken + 1)) &&
	on=$(get "/v1/jobs/statuses?per_page=3&next_token=$token" | jq -r ".[1].ID") &&
	weir job purge --force >/dev/null $on &&
	wait $second &&
	until_metric weir_http_waiting 0
'

test_expect_success 'a job that enters a page by a filter, or leaves it, wakes' '
	job=$(job 20) &&
	query="/v1/jobs/statuses?filter=Priority+%3D%3D+31" &&
	watch entered "$query" &&
	weir job urgency $job 31 >/dev/null &&
	wait $pid && jq -e "length == 1 and .[0].ID == \"$job\"" entered &&
	watch left "$query" &&
	weir job urgency $job 16 >/dev/null &&
	wait $pid && jq -e "length == 0" left
'

test_expect_success 'a purge between two polls is noticed' '
	body="{\"jobs\":[{\"id\":\"$(job 1)\"},{\"id\":\"$(job 2)\"}]}" &&
	index=$(header x-nomad-index "/v1/jobs/statuses" -d "$body") &&
	weir job purge --force >/dev/null $(job 1) &&
	caught_up &&
	get "/v1/jobs/statuses?index=$index" -d "$body" >out &&
	jq -e "length == 1 and .[0].ID == \"$(job 2)\"" out
'

test_expect_success 'an index ahead of the newest, or of another epoch, is answered at once' '
	get "/v1/jobs/statuses?per_page=2&index=99999999" | jq -e "length == 2" &&
	index=$(header x-nomad-index "/v1/jobs/statuses?per_page=2") &&
	get "/v1/jobs/statuses?per_page=2&index=$index&epoch=00000000000000ff" | jq -e "length == 2"
'

test_expect_success 'another job-info answers who asks with the index of the one before' '
	index=$(header x-nomad-index "/v1/jobs/statuses?per_page=2") &&
	kill -9 $(weir_daemon weir-job-info) &&
	until curl -sS --max-time 60 -H "X-Nomad-Token: $(cat state/http-token)" "http://$(cat state/http)/v1/jobs/statuses?per_page=2" >out 2>err
	do
		:
	done &&
	{ get "/v1/jobs/statuses?per_page=2&index=$index&wait=60s" >woken & } &&
	pid=$! &&
	LC_ALL=C weir submit true >id &&
	wait $pid &&
	caught_up &&
	get "/v1/jobs/statuses?per_page=2" | jq -e ".[0].ID == \"$(cat id)\""
'

test_expect_success 'a stream begins with its page and goes on with what changed on it' '
	mkfifo events &&
	{ get "/v1/jobs/statuses/stream?per_page=2" -N >events & } &&
	pid=$! &&
	{
		while read -r word rest
		do
			case "$word" in
			event:)
				event=$rest ;;
			data:)
				echo "$rest" >$event.json
				case "$event" in
				page)
					other=$(jq -r ".rows[0].ID" page.json)
					weir job urgency $other 30 >/dev/null ;;
				change)
					break ;;
				esac ;;
			esac
		done
	} <events &&
	jq -e ".rows | length == 2" page.json &&
	jq -e "(.rows | length == 1) and .rows[0].ID == \"$(jq -r ".rows[0].ID" page.json)\" and .rows[0].Priority == 30 and .removed == []" change.json &&
	kill $pid
'

weir_stop

test_done
