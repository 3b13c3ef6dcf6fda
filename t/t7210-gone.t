#!/bin/sh

test_description='What is gone from the store without a trace: put back from the log, or named; a store that ends too early is not taken for whole'

. "$(dirname "$0")/sharness.sh"

sql () {
	sqlite3 state/store.sqlite "$1"
}

decimal () {
	weir job id --to=dec "$1"
}

epoch () {
	weir stats --json | jq -r .epoch
}

test_expect_success 'a job that is held after it was submitted, and one that waits' '
	weir_instance &&
	weir queue stop &&
	weir submit --job-name=held true >held &&
	weir submit --job-name=other true >other &&
	weir job urgency $(cat held) hold &&
	weir submit --urgency=hold --job-name=gone true >gone &&
	weir stats --json | jq -r .epoch >epoch &&
	weir_stop
'

test_expect_success 'fault: the hold is gone from the archive: it is back after a start, and the job does not run' '
	sql "DELETE FROM tail" &&
	test_expect_code 3 weir store check --statedir="$PWD/state" >out &&
	grep -q "^log: $(cat held): its eventlog has 4 entries" out &&
	weir_instance &&
	weir queue start &&
	weir wait $(cat other) &&
	test "$(weir jobs -n -o "{urgency} {name}" $(cat held))" = "0 held" &&
	weir store check | grep -x sound &&
	test "$(epoch)" = "$(cat epoch)" &&
	weir_stop
'

test_expect_success 'fault: a row is gone: the job is named at each start until it is purged, and never taken for purged' '
	sql "DELETE FROM job WHERE id = $(decimal $(cat gone))" &&
	for start in 1 2
	do
		weir_instance &&
		weir jobs -a -n --fresh -o "{name}" >met 2>err &&
		! grep -x gone met && grep -x held met &&
		grep "damaged jobs are left out: 1" err &&
		weir_fails 1 "set aside" -- weir jobs -n $(cat gone) &&
		weir_stop || return 1
	done &&
	weir_instance &&
	weir job purge --force $(cat gone) &&
	weir jobs -a -n --fresh -o "{name}" 2>err && test_must_be_empty err &&
	weir_stop &&
	weir_instance &&
	weir jobs -a -n --fresh -o "{name}" 2>err && test_must_be_empty err &&
	weir_stop
'

test_expect_success 'promise: honest: a store that ends before what was told has another epoch, and check says why' '
	sql ".backup older" &&
	weir_instance &&
	epoch >epoch &&
	weir submit --urgency=hold true >newer &&
	weir_stop &&
	cp older state/store.sqlite && rm -f state/store.sqlite-wal state/store.sqlite-shm &&
	test_expect_code 3 weir store check --statedir="$PWD/state" >out &&
	grep "^wal: it ends with seq [0-9]*, and seq [0-9]* was on disk and told" out &&
	weir_instance &&
	test "$(epoch)" != "$(cat epoch)" &&
	weir_fails 1 "cannot be continued" -- weir journal --after=3 --epoch=$(cat epoch) --no-follow &&
	weir submit --urgency=hold true >newest &&
	test "$(decimal $(cat newest))" -gt "$(decimal $(cat newer))" &&
	epoch >epoch &&
	weir_stop &&
	test_expect_code 3 weir store check --statedir="$PWD/state" >out && ! grep -v "^blob:" out | grep "^[a-z]*: " &&
	weir_instance &&
	test "$(epoch)" = "$(cat epoch)" &&
	weir_stop
'

test_expect_success 'fault: a store cut to one byte says that it is cut, and what to do; what somebody added is named' '
	cp -R state cut &&
	printf S >cut/store.sqlite && rm -f cut/store.sqlite-wal &&
	weir_fails 1 "is cut short: it has 1 byte," "weir store recover" -- weir store check --statedir="$PWD/cut" &&
	sqlite3 state/store.sqlite "CREATE TRIGGER mine AFTER INSERT ON tail BEGIN DELETE FROM tail; END" &&
	test_expect_code 3 weir store check --statedir="$PWD/state" >out &&
	grep "^schema: trigger mine is not part of a store: drop it" out
'

test_done
