#!/bin/sh

test_description='weir bulksubmit, and weir cancel --query: many jobs at once, each input named'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance' '
	weir_instance
'

test_expect_success 'a dry run shows each jobspec, filled in' '
	weir bulksubmit --dry-run --job-name={./.} echo {} {//} {.} {1} {seq} {seq1} ::: d/a.x d/b.y ::: 7 >specs &&
	jq -r ".tasks[0].command | join(\" \")" specs >out &&
	printf "echo d/a.x d d/a 7 0 1\necho d/b.y d d/b 7 1 2\n" >expected &&
	test_cmp expected out &&
	jq -r .attributes.system.job.name specs >out &&
	printf "a\nb\n" >expected && test_cmp expected out &&
	test -z "$(weir jobs -a -n)"
'

test_expect_success 'inputs run in their order; their output is the proof' '
	weir bulksubmit sh -c "echo {0}-{1} >>done.{seq}" ::: a b ::: 1 2 >ids &&
	test_line_count = 4 ids &&
	weir wait $(cat ids) &&
	cat done.0 done.1 done.2 done.3 >out &&
	printf "a-1\na-2\nb-1\nb-2\n" >expected && test_cmp expected out
'

test_expect_success 'standard input, files, lists that go along, separators, definitions' '
	printf "one\n\ntwo words\n" | weir bulksubmit --dry-run echo | jq -c ".tasks[0].command" >out &&
	printf "%s\n" "[\"echo\",\"one\"]" "[\"echo\",\"two words\"]" >expected && test_cmp expected out &&
	printf "a b\nc" >from && printf "x\ny\nz" >to &&
	weir bulksubmit --sep=none --dry-run cp {0} {1} :::: from ::::+ to | jq -r ".tasks[0].command | join(\" \")" >out &&
	printf "cp a x\ncp b y\ncp c z\n" >expected && test_cmp expected out &&
	weir bulksubmit --define=log={/.}.log --dry-run --output={log} true {} ::: d/n.c |
		jq -e ".attributes.system.shell.options.output.stdout.path == \"n.log\"" &&
	weir bulksubmit --cc=1-2 --dry-run echo {} {cc} ::: a | jq -r ".attributes.system.environment.WEIR_JOB_CC" >out &&
	printf "1\n2\n" >expected && test_cmp expected out
'

test_expect_success 'what makes no sense is refused in words, before anything is submitted' '
	weir_fails 2 "expected a command" -- weir bulksubmit ::: a &&
	weir_fails 2 "only one list of inputs" -- weir bulksubmit echo {1} ::: a &&
	weir_fails 2 "{cc}" "--cc" -- weir bulksubmit echo {cc} {} ::: a &&
	weir_fails 2 "the list that they go with has 2" -- weir bulksubmit echo ::: a b :::+ c &&
	weir_fails 1 "nosuch" -- weir bulksubmit echo {} :::: nosuch &&
	weir_fails 2 "are not built" -- weir bulksubmit --define="p=2**int(x)" echo {p} ::: 1 &&
	weir_fails 2 "--jps is not built" -- weir bulksubmit --jps echo ::: 1 &&
	weir_fails 2 "--wait-event is not built" -- weir bulksubmit --wait-event=start echo ::: 1 &&
	weir_fails 0 "no inputs" -- weir bulksubmit echo {} ::: &&
	printf "good\n\377\n" >bad && weir_fails 1 "bad, line 2: not UTF-8" -- weir bulksubmit echo :::: bad &&
	weir_fails 2 "expected 1 to 1000000 jobs" -- weir bulksubmit --cc=1-999999 echo ::: a b
'

test_expect_success 'a job that is refused has its line, with that of its input; the others are submitted' '
	weir bulksubmit --key={} --urgency=hold true x ::: k1 k2 >ids &&
	test_expect_code 1 weir bulksubmit --key={} --urgency=hold true {} :::: - >ids 2>err <<-END &&
	k3
	k2
	k4
	END
	test_line_count = 2 ids && test_line_count = 1 err &&
	grep "standard input, line 2: .k2.: .*another jobspec" err &&
	test_expect_code 1 weir bulksubmit --json --key={} --urgency=hold true {} ::: k3 k2 >out 2>err &&
	test "$(jq -s length out)" = 1 &&
	jq -e ".jobs[0].known and .jobs[0].inputs == [\"k3\"] and .errors[0].index == 1 and .errors[0].errnum == 17" out
'

test_expect_success '--wait has the highest status, and JSON each' '
	test_expect_code 7 weir bulksubmit --wait --json sh -c "exit {}" ::: 0 7 3 >out 2>err &&
	jq -e "[.jobs[].status] == [0,7,3] and [.jobs[].index] == [0,1,2] and .errors == []" out &&
	test_line_count = 2 err
'

test_expect_success '--watch shows the output of one after the other' '
	weir bulksubmit --watch --quiet echo {} ::: first second >out &&
	printf "first\nsecond\n" >expected && test_cmp expected out
'

test_expect_success 'cancel --query: those that meet it, and no others' '
	weir bulksubmit --urgency=hold --job-name={} true ::: red green red blue >ids &&
	weir cancel --query name:red --dry-run >out && echo "2 jobs would be canceled" >expected && test_cmp expected out &&
	weir cancel --query name:red --ids >out && sed -n "1p;3p" ids | sort >expected && sort out >sorted && test_cmp expected sorted &&
	weir cancel --query "name:green,blue" --json >out &&
	jq -e ".count == 2 and .canceled == 2 and (.jobs | length) == 2 and .errors == []" out &&
	test "$(weir cancel --query name:nothing)" = "0 jobs canceled" &&
	weir_fails 2 "no operator" -- weir cancel --query nosuch:x &&
	weir_fails 2 "--query" -- weir cancel --query name:x --all &&
	weir_fails 2 "--all|--query" -- weir cancel --user all 4711
'

test_expect_success 'two thousand jobs: ids in the order of the inputs, again the same ones, all canceled by a query' '
	weir cancel --all --quiet &&
	seq 2000 >inputs &&
	weir bulksubmit --key=many --urgency=hold --job-name=many true {} :::: inputs >ids &&
	test $(sort -u ids | wc -l) = 2000 &&
	weir jobs -n -c0 -f name:many -o "{id}" >listed && test_line_count = 2000 listed &&
	weir bulksubmit --key=many --urgency=hold --job-name=many true {} :::: inputs >again &&
	test_cmp ids again &&
	weir bulksubmit --shuffle --json --key=many --urgency=hold --job-name=many true {} :::: inputs >json &&
	jq -e "[.jobs[].known] | all" json &&
	jq -r ".jobs | sort_by(.index) | .[].f58" json >out &&
	sed "s/^f/ƒ/" ids >expected && test_cmp expected out &&
	jq -e "[.jobs[].index] != [range(2000)] and all(.jobs[]; .inputs[0] == (.index + 1 | tostring))" json &&
	test "$(weir cancel --query name:many -m enough)" = "2000 jobs canceled" &&
	test -z "$(weir jobs -n -f "active and name:many")" &&
	test "$(weir jobs -n -c0 -f "canceled and name:many" | wc -l)" = 2000
'

weir_stop

test_done
