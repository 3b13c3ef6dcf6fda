#!/bin/sh

test_description='weir job purge: what is shown, what goes, what stays, and what everybody hears of it'

. "$(dirname "$0")/sharness.sh"

# Of what is asked here, nothing but ids matters.
ids () {
	weir jobs -a -c 0 -n -o "{id}" "$@"
}

# until_stats FILTER: asks for the counters until the filter says true, at most 60 seconds
until_stats () {
	until_end=$(($(date +%s) + 60))
	until weir stats --json 2>/dev/null | jq -e ".\"job-manager\" | $1" >/dev/null
	do
		test $(date +%s) -lt $until_end || return 1
	done
}

test_expect_success 'an instance' '
	weir_instance --runner-arg=--cores=0-1 &&
	tap_start tap
'

test_expect_success 'A08 a purge says which limit, --all or ids to give; names a job that runs, with its state; --all leaves it' '
	mkfifo hold &&
	weir submit sh -c "cat hold" >running &&
	weir job wait-event --quiet $(cat running) start &&
	for number in 1 2 3
	do
		weir submit echo $number || return 1
	done >done &&
	weir wait $(cat done) &&
	weir_fails 2 "--age-limit" "--num-limit" "--all" "ids" -- weir job purge &&
	weir_fails 2 "--age-limit" "--num-limit" "--all" "ids" -- weir job purge --force &&
	ids >listed && test_line_count = 4 listed &&
	weir_fails 1 "$(cat running)" "RUN" "active" -- weir job purge --force $(cat running) &&
	ids >listed && test_line_count = 4 listed &&
	weir job purge --all --force >out &&
	echo "purged 3 jobs; no ended jobs are left" >expected &&
	test_cmp expected out &&
	ids >listed &&
	test_cmp running listed
'

test_expect_success 'what was purged is unknown, to every command, also to the journal and after a restart' '
	gone=$(head -n 1 done) &&
	weir_fails 1 "no such job $gone" -- weir jobs $gone &&
	weir_fails 1 "$gone" -- weir job eventlog $gone &&
	weir_fails 1 "$gone" -- weir job attach $gone &&
	weir_fails 1 "no such job $gone" -- weir job purge --force $gone &&
	dec=$(weir job id --to=dec $gone) &&
	weir journal --from=all --no-follow --json >journal &&
	jq -e -s "map(select(.id == $dec)) == []" journal &&
	jq -e -s "[.[] | select(.entry.name == \"purge\").entry.context.jobs[]] | length == 3 and (index($dec) != null)" journal &&
	kill -KILL $(weir_daemon weir-job-manager) &&
	weir_fails 1 "no such job $gone" -- weir jobs --fresh $gone &&
	ids >listed &&
	test_cmp running listed &&
	test "$(weir stats --json | jq .jobs.inactive_purged)" = 3
'

test_expect_success 'its output goes with it, that of others stays' '
	weir submit echo one >one && weir submit echo two >two && weir wait $(cat one two) &&
	dec=$(weir job id --to=dec $(cat one)) && other=$(weir job id --to=dec $(cat two)) &&
	test -s state/jobs/$dec/output.eventlog &&
	weir job purge --force $(cat one) >out &&
	echo "purged 1 job; 1 ended job is left" >expected && test_cmp expected out &&
	until_stats ".unswept == 0" &&
	! test -e state/jobs/$dec &&
	test "$(weir job attach $(cat two))" = two &&
	test -s state/jobs/$other/output.eventlog
'

test_expect_success 'it shows first: how many, which, and that --force does it' '
	for number in 1 2 3 4
	do
		weir submit true || return 1
	done >four &&
	weir wait $(cat four) &&
	weir job purge --num-limit=2 >out &&
	echo "3 of 5 jobs that ended would be purged: $(echo $(cat two; head -n 2 four))" >expected &&
	echo "--force does it" >>expected &&
	test_cmp expected out &&
	weir job purge --age-limit=1h >out &&
	echo "none of 5 jobs that ended would be purged" >expected && test_cmp expected out &&
	weir job purge --age-limit=0 --json >out &&
	jq -e ".force == false and .count == 5 and (.jobs | length) == 5 and .inactive == 5 and .errors == []" out &&
	weir job purge --num-limit=2 --force --json >out &&
	jq -e ".force and .count == 3 and .inactive == 2 and .seq > 0" out &&
	tail -n 2 four | sort >expected && ids -f inactive | sort >left && test_cmp expected left
'

test_expect_success 'of the jobs that are named those go that have ended; each other one has its line, and the command fails' '
	some=$(tail -n 1 four) &&
	test_expect_code 1 weir job purge --force $(cat running) $some 4711 >out 2>err &&
	test_line_count = 2 err &&
	grep "$(cat running).*RUN" err && grep "no such job 4711" err &&
	echo "purged 1 job; 1 ended job is left" >expected && test_cmp expected out &&
	ids -f inactive | weir job purge --force - >out &&
	echo "purged 1 job; no ended jobs are left" >expected && test_cmp expected out
'

test_expect_success 'a result that is still to be waited for breaks no limit' '
	waited=$(weir submit --flags=waitable true) &&
	weir job wait-event --quiet $waited clean &&
	weir job purge --num-limit=0 --force >out &&
	echo "purged 0 jobs; 1 ended job is left" >expected && test_cmp expected out &&
	weir wait &&
	weir job purge --num-limit=0 --force >out &&
	echo "purged 1 job; no ended jobs are left" >expected && test_cmp expected out
'

test_expect_success 'a job-info that was away hears of it, and shows what is there' '
	weir submit true >away && weir wait $(cat away) &&
	info=$(weir_daemon weir-job-info) &&
	kill -STOP $info &&
	weir job purge --all --force >out &&
	kill -KILL $(weir_daemon weir-job-manager) &&
	kill -CONT $info &&
	ids --fresh >listed &&
	test_cmp running listed &&
	test "$(weir_daemon weir-job-info)" = $info
'

test_expect_success 'a purge of hundreds is a commit for each hundred' '
	echo >hold &&
	weir wait $(cat running) &&
	weir job purge --all --force &&
	weir submit --urgency=hold --cc=1-250 true >many &&
	weir cancel --all --quiet &&
	weir stats --json >before &&
	weir job purge --all --force >out &&
	echo "purged 250 jobs; no ended jobs are left" >expected && test_cmp expected out &&
	weir stats --json >after &&
	jq -e -s "map(.\"job-manager\".manager) | .[1].purges - .[0].purges == 3 and .[1].purged_jobs - .[0].purged_jobs == 250
		and .[1].commits - .[0].commits == 3" before after
'

weir_stop

test_expect_success 'an instance that keeps the last three' '
	weir_instance --runner-arg=--cores=0-1 --inactive-num-limit=3 --inactive-age-limit=1d &&
	weir submit --cc=1-20 true >ids20 &&
	until_stats ".active_jobs == 0 and .inactive_jobs == 3 and .inactive_purged == 17" &&
	ids --fresh >left &&
	test_line_count = 3 left
'

weir_stop

test_expect_success 'a limit that is none is told' '
	weir_fails 2 "--inactive-age-limit" "soon" -- weir start --inactive-age-limit=soon &&
	weir_fails 2 "--inactive-num-limit" "-1" -- weir start --inactive-num-limit=-1
'

test_done
