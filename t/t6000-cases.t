#!/bin/sh

test_description='Cases from real bug reports about systems like ours, by their number: on a one-slot instance'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance that runs one job at a time' '
	weir_instance --runner-arg=--cores=0 &&
	tap_start tap
'

# pending FILE: the pending jobs in order, from weir jobs; the same from a fold of the journal
pending () {
	weir jobs -n -f pending -o "{name}" >"$1" &&
	weir journal --from=all --no-follow --json >"$1.journal" &&
	py fold "$1.journal" | jq -r "select(.state == 8).name" >"$1.fold" &&
	test_cmp "$1" "$1.fold" &&
	py wire --stream job-list.list "{\"max_entries\":0,\"attrs\":[\"name\"],\"since\":0,\"constraint\":{\"states\":[14]}}" |
		jq -r ".jobs[].name" >"$1.list" &&
	test_cmp "$1" "$1.list"
}

test_expect_success 'A06 a job that times out is counted once, under timeout, and nothing is ever negative' '
	py cases a06 &&
	echo "successful 0 failed 0 canceled 0 timeout 1 inactive 1" >expected &&
	py cases counts >met &&
	test_cmp expected met &&
	weir stats --json | jq -e ".jobs | .successful == 0 and .failed == 0 and .canceled == 0 and .timeout == 1" &&
	weir jobs -n -f timeout -o "{id} {status}" >rows && test_line_count = 1 rows &&
	weir jobs -n -f failed -o "{id}" >rows && test_must_be_empty rows &&
	weir jobs --stats-only >line &&
	grep -w "1 timeout\|timeout 1\|1 timed out" line &&
	! grep -e "-[0-9]" line
'

test_expect_success 'A01 equal priorities are in the order of submission, and a job that went and came back is in its old place' '
	weir submit --job-name=busy sleep 1000 >busy &&
	weir job wait-event --quiet $(cat busy) start &&
	for name in a b c
	do
		weir submit --job-name=$name true >id.$name || return 1
	done &&
	printf "%s\n" a b c >abc && printf "%s\n" c a b >cab &&
	pending first && test_cmp abc first &&
	weir job priority $(cat id.c) 17 &&
	pending second && test_cmp cab second &&
	weir job priority $(cat id.c) 16 &&
	pending third && test_cmp abc third
'

test_expect_success 'A02 the priority of a running job is fixed: refused, no event, nobody falls over' '
	py daemons pid weir-job-manager >pid &&
	weir job info $(cat busy) eventlog >before &&
	weir_fails 1 "$(cat busy)" "once resources are allocated" -- weir job urgency $(cat busy) 31 &&
	weir_fails 1 "$(cat busy)" -- weir job priority $(cat busy) 31 &&
	py daemons pid weir-job-manager >pid.after &&
	test_cmp pid pid.after &&
	test "$(weir jobs -n -o "{urgency}" $(cat busy))" = 16 &&
	weir job info $(cat busy) eventlog >after &&
	test_cmp before after &&
	weir submit --urgency=hold true >next &&
	weir jobs $(cat next)
'

test_expect_success 'A07 jobs that never started have no start, no run time, and a reason' '
	weir cancel --all --quiet && weir wait --active; rm -f stop polls.failed polls &&
	{
		until test -e stop
		do
			weir jobs --json -f running,inactive >document 2>document.err && test_must_be_empty document.err &&
			jq -e "[.jobs[] | select(.t_run == null and .runtime != null and .runtime != 0)] == []" document >/dev/null &&
			jq -e "[.jobs[] | select(.name == \"held\" or .name == \"too-large\") | .t_run] | all(. == null)" document >/dev/null &&
			weir jobs -f running >/dev/null 2>document.err && test_must_be_empty document.err &&
			echo poll >>polls || { mv document polls.failed; break; }
		done &
	} &&
	poller=$! &&
	weir submit --job-name=too-large -n1 -c 4096 true >large &&
	weir submit --job-name=held --urgency=hold true >held &&
	weir cancel $(cat held) &&
	weir job wait-event --quiet $(cat large) clean && weir job wait-event --quiet $(cat held) clean &&
	weir jobs --json -f inactive >/dev/null &&
	touch stop && wait $poller &&
	! test -e polls.failed && test -s polls &&
	weir jobs -a -c 0 >table && grep held table &&
	test "$(weir jobs -n -o "{runtime}|{t_run}" $(cat held) $(cat large) | tr -d " 0s|-" | tr -d "\n")" = "" &&
	weir jobs --json $(cat large) $(cat held) >document &&
	jq -e ".jobs[0] | .t_run == null and (.runtime // 0) == 0 and .result == \"FAILED\"" document &&
	jq -r ".jobs[0].reason" document | grep -i "satisf\|cores\|nodes\|resources" &&
	jq -e ".jobs[1] | .t_run == null and (.runtime // 0) == 0 and .result == \"CANCELED\"" document
'

test_expect_success 'A10 a resumed stream begins after the last event seen; "now" brings nothing that was before' '
	weir wait --active; py cases a10
'

test_expect_success 'A16 clients that leave before their answer leave nothing behind' '
	py cases a16
'

weir_stop

test_done
