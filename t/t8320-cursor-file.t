#!/bin/sh

test_description='weir journal --cursor-file: one run goes on where the last one was'

. "$(dirname "$0")/sharness.sh"

follow () {
	weir journal --from=all --cursor-file=at --no-follow --json "$@"
}

test_expect_success 'an instance whose queue is stopped, with a job' '
	weir_instance &&
	weir queue stop &&
	job=$(weir submit --urgency=hold true)
'

test_expect_success 'promise: resumable: each run brings what happened since the last, joined it is the journal' '
	follow >joined &&
	test_line_count -ge 4 joined &&
	for number in 1 2 3
	do
		weir job priority $job $number &&
		weir job priority $job 0 &&
		follow >>joined || return 1
	done &&
	follow >nothing &&
	test_must_be_empty nothing &&
	weir journal --from=all --no-follow --json >whole &&
	test_cmp whole joined
'

test_expect_success 'promise: resumable: so it does over a restart, and when --count cuts a batch' '
	weir_stop &&
	weir_instance &&
	weir job priority $job 5 &&
	weir job priority $job 0 &&
	weir journal --cursor-file=at --count=1 --json >>joined &&
	weir journal --cursor-file=at --count=2 --json >>joined &&
	follow >>joined &&
	weir journal --from=all --no-follow --json >whole &&
	test_cmp whole joined
'

test_expect_success 'behind a cursor, --no-follow ends with the newest event and not before it' '
	weir journal --after=4 --no-follow --json >out &&
	sed -e 1,4d whole >expected &&
	test_cmp expected out
'

test_expect_success 'promise: honest: the cursor of another store is refused, with both ends and the remedy; the file stays as it is' '
	cp at kept &&
	weir_stop &&
	rm -r state &&
	weir_instance &&
	weir_fails 1 "cannot be continued" "remove at" -- weir journal --cursor-file=at --no-follow &&
	test_cmp kept at &&
	rm at &&
	follow >anew &&
	jq -e "(.epoch | length) == 16 and .seq >= 0" at
'

test_expect_success 'what is no cursor file is left alone; what cannot be written is an error' '
	echo precious >other &&
	weir_fails 1 "other" "remove it" -- weir journal --cursor-file=other --no-follow &&
	test "$(cat other)" = precious &&
	weir_fails 1 "nowhere/at" -- weir journal --cursor-file=nowhere/at --no-follow &&
	weir_fails 2 "--after" -- weir journal --cursor-file=at --after=3
'

weir_stop

test_done
