#!/bin/sh

test_description='What a task knows of its node, and what whoever started the instance is told of nodes'

. "$(dirname "$0")/sharness.sh"

# started SIZE…: an instance whose standard error is read line by line
started () {
	rm -f said err &&
	mkfifo said err &&
	exec 7<>err &&
	{ timeout 60 head -n 1 said >first & } &&
	head=$! &&
	{ weir start --statedir="$PWD/state" "$@" >said 2>err & } &&
	WEIR_PID=$! &&
	echo $WEIR_PID >>instances &&
	wait $head &&
	grep ready first &&
	WEIR_URI="local://$PWD/state/socket" &&
	export WEIR_URI
}

# told TEXT: the next line on standard error that ends so, within 30 s
told () {
	timeout 30 sh -c "while read -r line; do case \"\$line\" in *\"\$1\") exit 0;; esac; done" told "$1" <&7
}

test_expect_success 'a task knows its node, and the nodes of its job' '
	started -s 4 --runner-arg=--cores=0-1 &&
	nodes=$(weir resource status --json | jq -r ".nodes[0].name" | sed "s,-0$,-[0-3],") &&
	weir run --type=sysbatch sh -c "echo \$WEIR_NODE \$WEIR_NODELIST" | sort >out &&
	weir resource status --json | jq -r --arg all "$nodes" ".nodes[].name + \" \" + \$all" | sort >expected &&
	test_cmp expected out &&
	weir run -n1 sh -c "test \$WEIR_NODE = \$WEIR_NODELIST"
'

test_expect_success 'nodes that were all drained are given out at once: a sysbatch job runs on each' '
	weir resource drain 0-3 all &&
	id=$(weir submit --type=sysbatch true) &&
	weir resource undrain 0-3 &&
	weir wait $id &&
	weir job clients --json $id | jq -e ".counts.complete == 4"
'

test_expect_success 'nodes are called in a refusal as they were typed' '
	node=$(sed -n 2p expected | cut -d " " -f 1) &&
	weir resource drain $node x &&
	weir_fails 1 "$node already drained" -- weir resource drain $node again &&
	weir_fails 1 "rank 1 already drained" -- weir resource drain 1 again &&
	weir_fails 1 "rank 0 not drained" -- weir resource undrain 0
'

test_expect_success 'a node that is killed is told of, and so is its return; its part is the reason of a job that failed' '
	node=$(sed -n 3p expected | cut -d " " -f 1) &&
	id=$(weir submit --type=sysbatch sh -c "test \$WEIR_NODE != $node || exec sleep 60") &&
	weir job wait-event --quiet $id start &&
	kill -9 $(cat state/node-$node.lock) &&
	told "weir-job-runner: node $node is down: its node process went away; starting another" &&
	told "weir-job-runner: node $node is up again" &&
	weir_fails 1 "A part was lost: the node process of $node went away" -- weir wait $id
'

test_expect_success 'nodes of another size are told of at the start' '
	weir_stop && exec 7>&- &&
	started --runner-arg=--cores=0-1 &&
	told "; -s 4 brings them back; drains of those that are gone are kept" &&
	weir_stop
'

test_done
