#!/bin/sh

test_description='weir store: check, backup and recover as a user sees them; a damaged job stops nothing'

. "$(dirname "$0")/sharness.sh"

# sql DIR STATEMENTS, with ` in place of the quotes of text
sql () {
	sqlite3 "$1/store.sqlite" "$(printf %s "$2" | tr "\140" "\047")"
}

decimal () {
	weir job id --to=dec "$1"
}

test_expect_success 'an instance with jobs that ended and jobs that wait' '
	weir_instance &&
	test_when_finished weir_stop &&
	for job in 1 2 3 4 5 6; do weir submit true || return 1; done >ended &&
	weir wait $(cat ended) &&
	for job in 1 2 3 4 5 6; do weir submit --urgency=hold true || return 1; done >waiting
'

test_expect_success 'check finds a running instance sound, in words and as one document' '
	weir_instance &&
	test_when_finished weir_stop &&
	weir store check >out &&
	grep -q "12 jobs, 6 active" out &&
	test "$(tail -n 1 out)" = sound &&
	weir store check --json >json &&
	test "$(wc -l <json)" = 1 &&
	jq -e ".sound and .jobs == 12 and .active == 6 and .problems == []" json
'

test_expect_success 'a damaged job is named, set aside, left out of every listing, not run; all others go on; a purge takes it away' '
	rm -rf hurt && cp -R state hurt && rm -f hurt/socket &&
	bad=$(decimal "$(head -n 1 waiting)") &&
	sql hurt "UPDATE blob SET refs = refs - 1 WHERE id = (SELECT spec FROM job WHERE id = $bad);
		INSERT INTO blob (id, refs, data) VALUES (99, 1, \`{broken\`); UPDATE job SET spec = 99 WHERE id = $bad" &&
	test_expect_code 3 weir store check --statedir="$PWD/hurt" >out &&
	grep -q "^job: $(head -n 1 waiting): jobspec cannot be read" out &&
	grep -q "1 job cannot be used and is set aside" out &&
	test_expect_code 3 weir store check --statedir="$PWD/hurt" --json >json &&
	jq -e ".set_aside == [$bad]" json &&
	mv state whole && mv hurt state &&
	weir_instance &&
	test_when_finished "weir_stop; rm -rf state; mv whole state" &&
	weir jobs -a -n -o "{id}" | sort >listed &&
	sed 1d waiting | cat - ended | sort >expected &&
	test_cmp expected listed &&
	weir journal --from=all --no-follow --json >journal &&
	test -z "$(jq "select(.id == $bad)" journal)" &&
	weir job urgency $(sed 1d waiting) default &&
	weir wait $(sed 1d waiting) &&
	weir job purge --force "$(head -n 1 waiting)" &&
	weir store check
'

test_expect_success 'a copy is taken of a running instance; put in place it is that store, with an epoch of its own' '
	weir_instance &&
	weir store backup copy.sqlite >out &&
	grep -q "copy.sqlite: [0-9]* bytes, up to seq" out &&
	weir_fails 1 "copy.sqlite is there already" -- weir store backup copy.sqlite &&
	weir submit --urgency=hold true >late &&
	weir stats --json >stats.before &&
	weir_stop &&
	mkdir -p other && mv copy.sqlite other/store.sqlite && chmod 700 other &&
	mv state whole && mv other state &&
	weir_instance &&
	test_when_finished "weir_stop; rm -rf state; mv whole state" &&
	weir jobs -a -n -o "{id}" | sort >listed &&
	sort ended waiting >expected &&
	test_cmp expected listed &&
	seq=$(sql state "SELECT max(last_seq) FROM log") &&
	epoch=$(sql whole "SELECT value FROM meta WHERE key = \`store.epoch\`") &&
	test "$epoch" != "$(sql state "SELECT value FROM meta WHERE key = \`store.epoch\`")" &&
	test_must_fail weir journal --after=$seq --epoch=$epoch --no-follow 2>err &&
	grep -q "cannot be continued" err
'

test_expect_success 'recover: not while an instance runs; then everything that is in a damaged store once, and the old one is kept' '
	weir_instance &&
	weir_fails 1 "in use by process" -- weir store recover &&
	weir jobs -a -n -o "{id} {status} {urgency}" | sort >before &&
	weir_stop &&
	rm -rf hurt && cp -R state hurt &&
	sql hurt "DELETE FROM log WHERE last_seq % 2 = 0; UPDATE job SET userid = \`x\`; DROP INDEX job_user" &&
	weir_fails 1 "weir store recover" -- weir start --statedir="$PWD/hurt" &&
	weir store recover --statedir="$PWD/hurt" >out &&
	grep -q "the old one is .*store.sqlite.damaged-1" out &&
	test -e hurt/store.sqlite.damaged-1 &&
	weir store check --statedir="$PWD/hurt" &&
	mv state whole && mv hurt state &&
	weir_instance &&
	test_when_finished "weir_stop; rm -rf state; mv whole state" &&
	weir jobs -a -n -o "{id} {status} {urgency}" | sort >after &&
	test_cmp before after
'

test_expect_success 'recover: a store whose header and some pages are gone; what is lost is named, and there is a new epoch' '
	rm -rf hurt && cp -R state hurt &&
	dd if=/dev/zero of=hurt/store.sqlite bs=4096 count=1 conv=notrunc 2>/dev/null &&
	weir_fails 1 "first page is overwritten" "weir store recover" -- weir start --statedir="$PWD/hurt" &&
	weir store recover --statedir="$PWD/hurt" --json >json &&
	jq -e ".new_epoch and .lost_jobs == [] and .jobs == 13" json &&
	weir store check --statedir="$PWD/hurt"
'

test_expect_success 'a store that is gone while the files of jobs are there is not begun anew' '
	rm -rf hurt && cp -R state hurt && rm -f hurt/store.sqlite* &&
	weir_fails 1 "/hurt/key show that there was a store" "a backup of it back" -- weir start --statedir="$PWD/hurt"
'

test_expect_success 'what is not there, not a directory, not a store: one line each' '
	weir_fails 1 "no state directory" "--statedir" -- weir store check --statedir="$PWD/nowhere" &&
	: >file &&
	weir_fails 1 "not a directory" -- weir store check --statedir="$PWD/file" &&
	mkdir -p empty &&
	weir_fails 1 "there is no store" -- weir store check --statedir="$PWD/empty" &&
	weir_fails 1 "nothing to copy" -- weir store backup --statedir="$PWD/empty" x &&
	echo thesis >empty/store.sqlite &&
	weir_fails 1 "not a weir store" -- weir store check --statedir="$PWD/empty"
'

test_done
