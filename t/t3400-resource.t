#!/bin/sh

test_description='weir resource: which nodes there are, what is free of them, taking them out of use'

. "$(dirname "$0")/sharness.sh"

# Four nodes of two cores; a job of one core on the first.
test_expect_success 'an instance of four nodes' '
	weir_instance -s 4 --runner-arg=--cores=0-1 &&
	mkfifo hold &&
	id=$(weir submit sh -c "cat hold") &&
	weir job wait-event --quiet $id start &&
	weir resource status --json | jq -r ".nodes[].name" >names &&
	test_line_count = 4 names &&
	h0=$(sed -n 1p names) h1=$(sed -n 2p names) h3=$(sed -n 4p names)
'

# columns COMMAND…: its table with one blank between cells
columns () {
	weir resource "$@" | tr -s " " | sed "s/^ //"
}

test_expect_success 'what is free, allocated and down' '
	columns list >out &&
	head -n 1 out | grep -x "STATE NNODES NCORES NGPUS NODELIST" &&
	grep "^free 4 7 0 " out && grep "^allocated 1 1 0 $h0$" out && grep "^down 0 0 0" out &&
	columns list --verbose >out && test_line_count = 5 out && grep "^0 $h0 avail 1/2 0/0$" out &&
	columns list -v -i 1-2 >out && test_line_count = 3 out &&
	weir resource list -n >out && test_line_count = 3 out &&
	columns status >out && grep "^avail yes 4 " out && test_line_count = 2 out
'

test_expect_success 'formats as for jobs' '
	test "$(weir resource list -n -o "sort:-rank {rank}={cores_free}" | xargs)" = "3=2 2=2 1=2 0=1" &&
	test "$(weir resource status -n -i 0 -o "[{name:>12}] {online} {since!D:h}")" = "[$(printf %12s $h0)] True -" &&
	weir resource list --format=help | grep "cores_free" &&
	weir_fails 2 "nosuch" "weir resource list --format=help" -- weir resource list -o "{nosuch}"
'

test_expect_success 'a drain needs a reason, and nodes that are there' '
	weir_fails 2 "why?" "REASON" -- weir resource drain 1 </dev/null &&
	weir_fails 1 "nosuch" -- weir resource drain nosuch broken &&
	weir_fails 1 "rank 4" "ranks 0 to 3" -- weir resource drain 4 broken &&
	weir_fails 1 "no node is named" "0-3" -- weir resource list -i nosuch &&
	columns drain >out && test_line_count = 1 out
'

test_expect_success 'drained nodes get no job; one where a job runs is draining' '
	weir resource drain 0-1 fan is broken >out &&
	grep -x "$h0: draining; what runs there goes on" out && grep -x "$h1: drained" out &&
	columns drain >out && grep "draining 0 $h0 fan is broken" out && grep "drained 1 $h1 fan is broken" out &&
	columns status >out && grep "^draining yes 1 $h0 fan is broken" out &&
	columns list >out && grep "^free 2 4 0" out && grep "^down 2 3 0" out &&
	weir submit -N2 true >two && weir wait $(cat two) &&
	test "$(weir jobs -n -o "{ranks}" $(cat two))" = "[2-3]"
'

test_expect_success 'at a terminal the reason is asked for' '
	echo "by hand" | script -qec "weir resource drain 3" /dev/null >screen &&
	grep "why is 3 drained?" screen &&
	weir resource status --json | jq -e ".nodes[3].drain.reason == \"by hand\"" &&
	weir resource undrain --quiet 3
'

test_expect_success 'what is drained already is said with the way out' '
	weir_fails 1 "already drained" "--force" "--update" -- weir resource drain 1 noise &&
	weir resource drain --quiet --update 1-2 noise &&
	weir resource status --json | jq -r "[.nodes[1,2].drain.reason] | join(\",\")" >out &&
	echo "fan is broken,noise" >expected && test_cmp expected out &&
	weir resource drain --quiet --force 1 new &&
	test "$(weir resource status --json | jq -r ".nodes[1].drain.reason")" = new
'

test_expect_success 'undrained, by name, they get jobs again' '
	weir_fails 1 "not drained" "--force" -- weir resource undrain $h3 &&
	weir resource undrain $h0,$h1 >out && test "$(cat out)" = "$(weir resource status --json | jq -r "[.nodes[0,1].name] | join(\",\")" >/dev/null; cat out)" &&
	weir resource undrain --force 0-3 >out && test_line_count = 1 out && grep ": avail$" out &&
	columns status >out && test_line_count = 2 out
'

test_expect_success 'one JSON document, the same keys' '
	keys="rank name status online cores cores_allocated gpus gpus_allocated drain" &&
	for command in list status
	do
		weir resource $command --json >out && test "$(jq -s length out)" = 1 &&
		test "$(jq -r ".nodes[] | keys_unsorted | join(\" \")" out | sort -u)" = "$keys" || return 1
	done &&
	weir resource drain --json 2 why >out &&
	jq -e ".seq > 0 and .errors == [] and (.nodes | length) == 1 and .nodes[0].drain.reason == \"why\"" out &&
	test_expect_code 1 weir resource drain --json 2 again >out 2>err &&
	jq -e ".seq == null and .nodes == [] and .errors[0].errnum == 17" out &&
	weir resource undrain --json 2 | jq -e ".nodes[0].status == \"avail\""
'

test_expect_success 'a drain is kept over a restart' '
	weir resource drain --quiet 2 kept &&
	weir_stop &&
	weir_instance -s 4 --runner-arg=--cores=0-1 &&
	weir resource status --json | jq -e "[.nodes[] | select(.drain)] | length == 1 and .[0].rank == 2 and .[0].drain.reason == \"kept\""
'

weir_stop

test_expect_success 'no instance' '
	weir_fails 1 "weir start" -- weir resource list &&
	test_expect_code 1 weir resource status --json >out 2>err && jq -e ".nodes == [] and (.errors | length) == 1" out
'

test_done
