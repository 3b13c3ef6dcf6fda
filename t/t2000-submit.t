#!/bin/sh

test_description='weir submit: what is typed is what is stored and what runs'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of two cores' '
	weir_instance --runner-arg=--cores=0-1
'

# spec ID FILTER: a value of the stored jobspec
spec () {
	weir job info "$1" jobspec | jq -c "$2"
}

test_expect_success 'the id is printed as the locale can show it' '
	LC_ALL=C weir submit true >plain &&
	grep -x "f[1-9A-Za-z]*" plain &&
	LC_ALL=C.UTF-8 weir submit true >utf8 &&
	grep -x "ƒ[1-9A-Za-z]*" utf8 &&
	weir submit --quiet true >nothing &&
	test_must_be_empty nothing
'

test_expect_success 'events come in the order of the table' '
	id=$(weir submit true) &&
	weir wait $id &&
	echo submit validate depend priority alloc start finish release free clean >expected &&
	weir job eventlog --json $id | jq -r .name | xargs >actual &&
	test_cmp expected actual
'

test_expect_success 'resources are those of the options' '
	id=$(weir submit --urgency=hold -n4 -c2 -g1 true) &&
	test "$(spec $id .resources[0])" = "{\"type\":\"slot\",\"count\":4,\"label\":\"task\",\"with\":[{\"type\":\"core\",\"count\":2},{\"type\":\"gpu\",\"count\":1}]}" &&
	id=$(weir submit --urgency=hold -N1 true) &&
	test "$(spec $id .resources[0].exclusive)" = true &&
	weir cancel --all --quiet
'

test_expect_success 'time limit, name, directory and attributes are stored' '
	id=$(weir submit -t 10 --job-name=nightly --cwd=/ --setattr=foo.bar=1 -o x=y sh -c "echo \"\$@\"" -- -n5) &&
	test "$(spec $id ".attributes.system.duration == 600")" = true &&
	test "$(spec $id .attributes.system.job.name)" = "\"nightly\"" &&
	test "$(spec $id .attributes.system.cwd)" = "\"/\"" &&
	test "$(spec $id .attributes.system.foo.bar)" = 1 &&
	test "$(spec $id .attributes.system.shell.options.x)" = "\"y\"" &&
	test "$(spec $id .tasks[0].command)" = "[\"sh\",\"-c\",\"echo \\\"\$@\\\"\",\"--\",\"-n5\"]" &&
	test "$(weir jobs -n -o "{name}" $id)" = nightly
'

test_expect_success 'the environment follows the rules, is given to the job and is not in the stored jobspec' '
	A=one B=two weir submit "--env=-*" --env=PATH --env=A "--env=C=\$A-three" --output=env.out env >id &&
	weir wait $(cat id) &&
	grep -x A=one env.out && grep -x C=one-three env.out && ! grep "^B=" env.out &&
	test "$(spec $(cat id) .attributes.system.environment)" = null &&
	weir job info --original $(cat id) jobspec | jq -r .attributes.system.environment.C >c &&
	echo one-three >expected &&
	test_cmp expected c
'

test_expect_success 'a job knows its id as submit printed it, and its instance, and not the key' '
	id=$(weir submit --output=id.out sh -c "echo \$WEIR_JOB_ID; echo \$WEIR_URI; env | grep -c -i -e key || :") &&
	weir wait $id &&
	{ echo $id; echo $WEIR_URI; echo 0; } >expected &&
	test_cmp expected id.out
'

test_expect_success 'resource limits are passed on' '
	(ulimit -S -n 77 && weir submit --rlimit=core=0 --output=limits.out sh -c "ulimit -S -n; ulimit -S -c") >id &&
	weir wait $(cat id) &&
	{ echo 77; echo 0; } >expected &&
	test_cmp expected limits.out
'

test_expect_success 'a job for each number, in order, and each knows its own' '
	weir submit --cc=1-5 --output=cc.{cc}.out sh -c "echo {cc} \$WEIR_JOB_CC \$FLUX_JOB_CC" >ids &&
	test_line_count = 5 ids &&
	weir wait - <ids &&
	for number in 1 2 3 4 5
	do
		echo $number $number $number >expected && test_cmp expected cc.$number.out || return 1
	done &&
	weir job id --to=dec - <ids >dec &&
	sort -n dec >sorted &&
	test_cmp sorted dec
'

test_expect_success 'a name in the output file is the id' '
	LC_ALL=C.UTF-8 && export LC_ALL && test_when_finished "LC_ALL=C" &&
	id=$(weir submit "--output=out.{{id}}" echo here) &&
	weir wait $id &&
	echo here >expected &&
	test_cmp expected out.$id
'

test_expect_success '--dry-run prints the jobspec and submits nothing' '
	weir stats --json | jq .\"job-manager\".seq >before &&
	weir submit --dry-run -n3 hostname | jq -c ".tasks[0].command" >command &&
	echo "[\"hostname\"]" >expected &&
	test_cmp expected command &&
	weir stats --json | jq .\"job-manager\".seq >after &&
	test_cmp before after
'

test_expect_success '--wait waits, and its status is the highest' '
	weir submit --quiet --wait true &&
	test_expect_code 3 weir submit --wait --bcc=1-3 sh -c "exit {cc}" >ids 2>err &&
	test_line_count = 3 ids &&
	test_line_count = 3 err &&
	grep "Exit 2" err
'

test_expect_success '--watch shows the output of all, in order' '
	weir submit --watch --quiet --bcc=1-3 echo number {cc} >out &&
	{ echo number 1; echo number 2; echo number 3; } >expected &&
	test_cmp expected out
'

test_expect_success 'two hundred jobs at once all end' '
	weir submit --bcc=1-200 "--env=-*" true >ids &&
	test_line_count = 200 ids &&
	weir wait - <ids
'

test_expect_success 'the last job is the last' '
	weir submit true >id &&
	weir job last >last &&
	test_cmp id last &&
	weir job last 3 >three &&
	test_line_count = 3 three
'

weir_stop

test_done
