#!/bin/sh

test_description='What keeps an instance from starting, or a command from reaching it: one line, the thing, the remedy, nothing changed'

. "$(dirname "$0")/sharness.sh"

test "$(id -u)" = 0 || test_set_prereq NOT_ROOT

# All files of a state directory that matter, by content.
digest () {
	sha256sum "$1"/store.sqlite "$1"/key
}

test_expect_success 'a state directory with a job in it' '
	weir_instance &&
	test_when_finished weir_stop &&
	weir submit --urgency=hold true >id &&
	weir jobs -n -o "{id}" >before
'

test_expect_success 'a state directory in use: named, with the process and the remedy, and the instance goes on' '
	weir_instance &&
	test_when_finished weir_stop &&
	digest state >files &&
	weir_fails 1 "$PWD/state" "in use by process $(weir_daemon weir-job-manager)" "--statedir" -- weir start --statedir="$PWD/state" &&
	digest state >files.after &&
	test_cmp files files.after &&
	weir jobs -n -o "{id}" >after &&
	test_cmp before after
'

test_expect_success 'the lock says it, not the socket: also with the socket file gone' '
	weir_instance &&
	test_when_finished weir_stop &&
	mv state/socket moved &&
	weir_fails 1 "in use by process" -- weir start --statedir="$PWD/state" &&
	mv moved state/socket &&
	weir ping -c 1 job-manager
'

test_expect_success 'a store of a newer schema is refused and left as it is' '
	mkdir newer && cp state/store.sqlite* state/key newer/ &&
	version=$(sqlite3 newer/store.sqlite "PRAGMA user_version") &&
	sqlite3 newer/store.sqlite "PRAGMA user_version = $((version + 1)); PRAGMA wal_checkpoint(TRUNCATE)" >/dev/null &&
	rm -f newer/store.sqlite-wal newer/store.sqlite-shm &&
	digest newer >files &&
	weir_fails 1 "$PWD/newer/store.sqlite" "schema $((version + 1))" "newer than the $version" "--statedir" -- weir start --statedir="$PWD/newer" &&
	digest newer >files.after &&
	test_cmp files files.after
'

test_expect_success 'a file that is no store is refused and left as it is' '
	mkdir other && echo "my thesis" >other/store.sqlite && : >other/key &&
	digest other >files &&
	weir_fails 1 "$PWD/other/store.sqlite is not a weir store" "move it away" -- weir start --statedir="$PWD/other" &&
	digest other >files.after &&
	test_cmp files files.after
'

test_expect_success 'another program'\''s database is refused and left as it is' '
	mkdir foreign && sqlite3 foreign/store.sqlite "CREATE TABLE mine (x); INSERT INTO mine VALUES (1)" && : >foreign/key &&
	digest foreign >files &&
	weir_fails 1 "$PWD/foreign/store.sqlite is not a weir store" -- weir start --statedir="$PWD/foreign" &&
	digest foreign >files.after &&
	test_cmp files files.after
'

test_expect_success NOT_ROOT 'a state directory that cannot be written' '
	mkdir locked && chmod 500 locked &&
	weir_fails 1 "$PWD/locked" "--statedir" -- weir start --statedir="$PWD/locked"
'

test_expect_success 'a state directory that cannot be made' '
	: >file &&
	weir_fails 1 "$PWD/file/state" "--statedir" -- weir start --statedir="$PWD/file/state"
'

test_expect_success 'a socket path that is too long: the limit, the length, the remedy; no directory is left behind' '
	long=$PWD/$(printf "%0100d" 0) &&
	weir_fails 2 "$long/socket" "107 bytes" "$(printf %s "$long/socket" | wc -c)" "--statedir" -- weir start --statedir="$long" &&
	test ! -e "$long"
'

test_expect_success 'a socket that is not there: the path and how to start one, for every command that needs one' '
	(
		WEIR_URI=local://$PWD/nowhere/socket && export WEIR_URI &&
		for command in "jobs" "submit true" "job priority 1 5" "cancel 1" "journal" "stats" "queue status" "ping -c 1" "wait 1" "run true"
		do
			weir_fails 1 "$PWD/nowhere/socket" "weir start" -- weir $command || return 1
		done
	) &&
	test ! -e nowhere
'

test_expect_success 'a socket whose server is gone says so' '
	weir_instance &&
	test_when_finished weir_stop &&
	py daemons pid weir-job-manager >pid &&
	kill -STOP $WEIR_PID &&
	kill -9 $(cat pid) &&
	{
		weir_fails 1 "$PWD/state/socket" "weir start" -- weir submit true
		failed=$?
		kill -CONT $WEIR_PID
	} &&
	test $failed = 0 &&
	py daemons wait weir-job-manager &&
	weir jobs -n -o "{id}" >after &&
	test_cmp before after
'

test_expect_success 'a bad command line, jobspec, id or value: one line, and no event' '
	weir_instance &&
	test_when_finished weir_stop &&
	weir stats --json | jq ".\"job-manager\".seq" >seq &&
	weir_fails 2 "--no-such-option" "weir submit --help" -- weir submit --no-such-option true &&
	weir_fails 2 "0 to 31" -- weir job priority "$(cat id)" 32 &&
	weir_fails 2 "0 to 31" -- weir submit --urgency=32 true &&
	weir_fails 1 "f2QE" -- weir job priority f2QE 5 &&
	weir_fails 1 "f2QE" -- weir cancel f2QE &&
	weir_fails 1 "f2QE" -- weir jobs f2QE &&
	weir_fails 2 "nonsense!" -- weir cancel "nonsense!" &&
	weir_fails 1 "attributes.system.duration" -- weir submit --setattr=duration=\"x\" true &&
	weir stats --json | jq ".\"job-manager\".seq" >seq.after &&
	test_cmp seq seq.after
'

test_done
