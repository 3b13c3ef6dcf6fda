#!/bin/sh

test_description='A job whose record is damaged costs itself: listings and the journal go on, and say which job they lack'

. "$(dirname "$0")/sharness.sh"

# damage SQL: as if the disk had; nobody has the store open
damage () {
	sqlite3 state/store.sqlite "PRAGMA writable_schema = 1;
		UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'job'" &&
	sqlite3 state/store.sqlite "$1"
}

# decimal ID
decimal () {
	weir job id --to=dec "$1"
}

test_expect_success 'jobs that are over, and jobs that wait' '
	weir_instance --runner-arg=--cores=0 &&
	for n in 1 2 3
	do
		weir submit --job-name=over$n true >over$n &&
		weir job wait-event --quiet $(cat over$n) clean || return 1
	done &&
	for n in 1 2 3
	do
		weir submit --urgency=hold --job-name=held$n true >held$n || return 1
	done &&
	weir jobs -a -n -o "{name}" >all && test_line_count = 6 all
'

test_expect_success 'one that is over and one that waits are damaged in the store' '
	decimal $(cat over2) >bad.over && decimal $(cat held2) >bad.held &&
	weir_stop &&
	damage "INSERT INTO blob (refs, data) VALUES (2, x'"'"'7b'"'"');
		UPDATE job SET spec = last_insert_rowid() WHERE id IN ($(cat bad.over), $(cat bad.held))" &&
	weir_instance --runner-arg=--cores=0
'

test_expect_success 'fault: weir jobs shows the others, and is current' '
	printf "%s\n" held1 held3 over3 over1 >expected &&
	weir jobs -a -n --fresh -o "{name}" >met 2>err &&
	test_cmp expected met &&
	grep "damaged jobs are left out: 2" err &&
	weir jobs -a --json | jq -e ".stale == null and (.jobs | length) == 4"
'

test_expect_success 'fault: weir journal --from=all shows the others, names those left out, and succeeds' '
	weir journal --from=all --no-follow --json >journal 2>err &&
	jq -r ".id // empty" journal | sort -u >ids &&
	for name in over1 over3 held1 held3
	do
		decimal $(cat $name) || return 1
	done | sort >expected &&
	test_cmp expected ids &&
	test_line_count = 2 err &&
	grep "job $(cat over2) is left out" err && grep "job $(cat held2) is left out" err &&
	weir journal --from=all --no-follow --ids=$(cat over1) >/dev/null 2>err &&
	test_must_be_empty err
'

test_expect_success 'asked for by its id, such a job is named, with the reason' '
	test_must_fail weir jobs -n -o "{name}" $(cat held2) $(cat held1) >met 2>err &&
	echo "weir: jobs: $(cat held2): set aside: the job-manager cannot read it; see '"'weir store check'"'" >expected &&
	test_cmp expected err &&
	echo held1 >expected && test_cmp expected met
'

test_expect_success 'it is counted and named in stats' '
	weir stats --json >stats &&
	jq -e ".[\"job-list\"].set_aside.count == 2" stats &&
	jq -e ".[\"job-list\"].set_aside.jobs | map(.id) | contains([$(cat bad.over), $(cat bad.held)])" stats &&
	jq -e ".[\"job-list\"].journal | .poisonings == 0 and .invalid == 0" stats
'

test_expect_success 'fault: a job-info that goes on by cursor drops the rows of jobs that a new job-manager sets aside' '
	decimal $(cat held3) >bad.later &&
	pid=$(weir_daemon weir-job-manager) && info=$(weir_daemon weir-job-info) &&
	kill -STOP $WEIR_PID && kill -KILL $pid &&
	until grep "State:.Z" /proc/$pid/status; do :; done &&
	damage "UPDATE job SET userid = \"x\" WHERE id = $(cat bad.later)" &&
	kill -CONT $WEIR_PID &&
	weir jobs -a -n --fresh -o "{name}" >met &&
	printf "%s\n" held1 over3 over1 >expected &&
	test_cmp expected met &&
	test $info = $(weir_daemon weir-job-info) &&
	weir stats --json | jq -e ".[\"job-list\"] | .set_aside.count == 3 and .journal.rebuilds == 0"
'

test_expect_success 'purged by its id, such a job is gone from there too' '
	weir job purge --force $(cat over2) &&
	weir journal --from=all --no-follow --json >journal 2>err &&
	! grep "$(cat over2)" err &&
	weir jobs -a -n --fresh -o "{name}" >met 2>err &&
	printf "%s\n" held1 over3 over1 >expected &&
	test_cmp expected met &&
	grep "damaged jobs are left out: 2" err
'

test_expect_success 'the instance ends' '
	weir_stop
'

test_done
