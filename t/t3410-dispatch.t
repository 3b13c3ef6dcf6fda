#!/bin/sh

test_description='weir submit --type, --parameterized and weir dispatch'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'a parameterized job is made and waits for dispatches' '
	weir_instance -s 2 &&
	parent=$(weir submit --parameterized --meta-required=who --meta-optional=x.y --payload=optional --job-name=letters \
		sh -c "echo hello \$WEIR_META_WHO \$WEIR_META_X_Y; cat") &&
	weir jobs -n >out &&
	test_line_count = 1 out && grep "letters .* D .* parameterized$" out &&
	weir info $parent | grep "waits for  parameterized" &&
	weir queue drain -t 60s
'

test_expect_success 'a dispatch prints the id of the child, which runs with its meta values and payload' '
	child=$(weir dispatch $parent --meta who=you) &&
	echo "hello you" >expected &&
	weir job attach $child >out && test_cmp expected out &&
	printf "dear\nreader\n" | weir dispatch $parent -m who=me -m x.y=z --payload-file - >id &&
	{ echo "hello me z"; echo dear; echo reader; } >expected &&
	weir job attach $(cat id) >out && test_cmp expected out &&
	echo "from a file" >letter &&
	child=$(weir dispatch $parent -m who=a --payload-file=letter) &&
	{ echo "hello a"; cat letter; } >expected &&
	weir job attach $child >out && test_cmp expected out
'

test_expect_success 'children know their parent' '
	test "$(weir jobs -n -o "{parent}" $child)" = $parent &&
	test -z "$(weir jobs -n -o "{parent}" $parent)" &&
	weir jobs --json $child | jq -e ".jobs[0].parent == $(weir job id $parent)" &&
	weir info $child | grep -x "parent     $parent" &&
	test $(weir jobs -a -n -f "parent:$parent" | wc -l) = 3 &&
	test "$(weir jobs -n -o "{id}" -f "parent:$parent and completed" -c 1)" = $child &&
	test -z "$(weir jobs -n -f "parent:$child")" &&
	weir_fails 2 malformed -- weir jobs -f "parent:abc"
'

test_expect_success 'what the parent asks for and does not' '
	weir_fails 1 "meta.who" "requires" -- weir dispatch $parent &&
	weir_fails 1 "meta.other" "who" -- weir dispatch $parent -m who=x -m other=y &&
	weir_fails 2 "expected KEY=VALUE" -- weir dispatch $parent -m who &&
	weir_fails 2 "given twice" -- weir dispatch $parent -m who=a -m who=b &&
	strict=$(weir submit --parameterized --payload=required cat) &&
	weir_fails 1 "payload" "requires" -- weir dispatch $strict &&
	none=$(weir submit --parameterized --payload=forbidden cat) &&
	weir_fails 1 "payload" "none" -- weir dispatch $none --payload-file=letter &&
	head -c 16385 /dev/zero >big &&
	weir_fails 1 "more than 16384 bytes" -- weir dispatch $strict --payload-file=big &&
	head -c 16384 /dev/zero >big &&
	weir dispatch --quiet $strict --payload-file=big
'

test_expect_success 'a key makes one child; JSON says that it was known' '
	once=$(weir dispatch $parent -m who=a --key=k) &&
	test "$(weir dispatch $parent -m who=a --key=k)" = $once &&
	weir dispatch $parent -m who=a --key=k --json >out &&
	test "$(jq -s length out)" = 1 &&
	jq -e ".f58 and .id == $(weir job id $once) and .known and .seq > 0 and .errors == []" out &&
	weir_fails 1 "another jobspec" -- weir dispatch $parent -m who=b --key=k
'

test_expect_success 'what cannot be dispatched from' '
	plain=$(weir submit true) &&
	weir_fails 1 "not parameterized" -- weir dispatch $plain -m a=b &&
	weir_fails 1 "no such job 4711" -- weir dispatch 4711 &&
	weir_fails 2 malformed -- weir dispatch abc &&
	weir cancel $none &&
	weir_fails 1 "$none takes no more dispatches" "Canceled" -- weir dispatch $none &&
	weir_fails 1 "$child is not parameterized" "$parent" -- weir dispatch $child -m who=a &&
	weir wait $plain && weir_fails 1 "$plain is not parameterized" -- weir dispatch $plain &&
	test_expect_code 1 weir dispatch --json 4711 >out 2>err && jq -e ".id == null and .errors[0].errnum == 2" out
'

test_expect_success 'options that do not go together' '
	weir_fails 2 "weir dispatch" -- weir run --parameterized true &&
	weir_fails 2 "--parameterized" -- weir submit --wait --parameterized true &&
	weir_fails 2 "--parameterized" -- weir submit --meta-required=a true &&
	weir_fails 2 "no meta key" -- weir submit --parameterized --meta-required="a b" true &&
	weir_fails 2 "one task on every node" -- weir submit --type=sysbatch -n2 true &&
	weir_fails 2 "service" -- weir submit --type=service true
'

test_expect_success 'a sysbatch job has one task on every node; weir run shows them all' '
	weir run -l --type=sysbatch sh -c "echo \$WEIR_TASK_RANK" | sort >out &&
	{ echo "0: 0"; echo "1: 1"; } >expected &&
	test_cmp expected out &&
	test "$(weir jobs -n -o "{nnodes}" $(weir job last))" = 2
'

test_expect_success 'weir info says what a job is, what it was given and what it needs' '
	weir info $parent >out &&
	grep -x "kind       parameterized: .*" out && grep -x "requires   who" out && grep -x "takes      x.y" out &&
	grep -x "payload    optional" out && grep "^command    sh -c " out &&
	weir info $(cat id) >out && grep -x "meta       x.y=z" out && grep -x "payload    12 bytes" out &&
	weir info --json $(cat id) | jq -e ".jobs[0] | .kind == \"batch\" and .dispatch.payload_bytes == 12 and .command[0] == \"sh\" and .waits == null" &&
	weir info $(weir job last) | grep "^kind       sysbatch"
'

test_expect_success 'weir info says why a job that waits is not started' '
	weir queue stop -m "disk work" && waits=$(weir submit true) &&
	weir info $waits | grep "^waits for  the queue is stopped (disk work)" &&
	test "$(weir jobs -no "{contextual_info}" $waits)" = "queue stopped: disk work" && weir jobs -n | grep "queue stopped: disk work$" &&
	weir resource drain 0-1 bad && weir queue start --quiet &&
	weir info $waits | grep -x "waits for  nodes: 0 of 2 ready (2 drained), it needs 1" &&
	test "$(weir jobs -no "{contextual_info}" $waits)" = "0 of 2 nodes ready" &&
	weir resource undrain 0-1 && weir wait $waits
'

weir_stop

test_done
