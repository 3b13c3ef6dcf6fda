#!/bin/sh

test_description='large jobspecs

What goes with an entry counts when a page of the journal is cut: a backlog of large jobspecs once became one response that no
reader takes, and a job-info that restarted never came back.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'thirty jobs of four MiB each' '
	weir_instance &&
	weir queue stop -m "to be listed" &&
	py large 30 4194304 >ids &&
	test_line_count = 30 ids
'

test_expect_success 'a job-info that restarts lists them all' '
	info=$(weir_daemon weir-job-info) &&
	kill -KILL $info &&
	timeout 60 tail --pid=$info -f /dev/null &&
	weir jobs --fresh -c0 -no "{id}" >listed &&
	sort ids >expected &&
	sort listed >actual &&
	test_cmp expected actual
'

test_expect_success 'a reader gets every entry in order' '
	weir journal --from=all --no-follow --json | jq .seq >seqs &&
	sort -n -u seqs >expected &&
	test_cmp expected seqs &&
	test $(grep -c . seqs) -ge 120
'

weir_stop
test_done
