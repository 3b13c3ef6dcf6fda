#!/bin/sh

test_description='The claim protocol under attack: another boot, a copied state directory, a full disk, stopped shepherds

Whatever happens: a body begins once at most, what ended is told as it ended, what is lost is said to be, no core stays taken.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'another boot: what ran is lost and not run again, what ended is told, what waited runs' '
	mkdir reboot &&
	(cd reboot && py attacked reboot)
'

test_expect_success 'a copied state directory: the jobs of the first are neither adopted nor killed nor run again' '
	mkdir copy &&
	(cd copy && py attacked copy)
'

test_expect_success 'a shepherd stopped across a restart of every daemon holds up nobody, and its job ends once' '
	mkdir stopped &&
	(cd stopped && py attacked stopped)
'

for step in after-mkdir after-claim after-reserve after-executing after-exec before-status after-status
do
	test_expect_success "kill -9 of the shepherd $step, on a machine of two nodes" '
		mkdir $step &&
		(
			cd $step &&
			WEIR_SHEPHERD_DIE_AT=$step@$PWD/dead &&
			export WEIR_SHEPHERD_DIE_AT &&
			weir_instance --runner-arg=--cores=0 -s2 &&
			{
				py claims shepherd $step
				status=$?
				weir_stop && exit $status
			}
		)
	'
done

mkdir full && mkdir full/state &&
if mount -t tmpfs -o size=8m none full/state 2>/dev/null
then
	cleanup "umount -l \"$PWD/full/state\""
	test_set_prereq TMPFS
else
	say 'a small disk cannot be mounted here, which needs root: the test of a full one is skipped'
fi

test_expect_success TMPFS 'a full disk and a polite stop: the end of a job is found as it was' '
	(
		cd full &&
		mkfifo began go &&
		weir_instance --keep-jobs --runner-arg=--cores=0 &&
		id=$(weir submit sh -c "echo x >began; read line <go; echo ran >>ran; exit 3") &&
		read line <began &&
		weir job wait-event $id start >event &&
		weir job id --to=dec $id >dec &&
		{ dd if=/dev/zero of=state/filler bs=4k 2>/dev/null || :; } &&
		echo x >go &&
		status=state/jobs/$(cat dec)/status &&
		until grep -q status $status; do :; done &&
		weir_stop &&
		test "$(cat $status)" = "{\"status\":768}" &&
		rm state/filler &&
		weir_instance --keep-jobs --runner-arg=--cores=0 &&
		test_expect_code 3 weir job status $id &&
		test_line_count = 1 ran &&
		weir run true &&
		weir_stop
	)
'

test_expect_success 'a private instance whose processes were stopped ends in bounded time, and nothing of it is left' '
	cat >command <<-\EOF &&
	id=$(weir submit sh -c "sleep 1000 & echo \$! >pid; wait") &&
	weir job wait-event $id start >/dev/null &&
	until test -s pid; do :; done &&
	py attacked stop $id
	EOF
	timeout 40 weir start --statedir="$PWD/private" sh -c ". \"$SHARNESS_TEST_SRCDIR/sharness.d/system.sh\"; . ./command" &&
	py attacked nothing "$PWD/private" &&
	! kill -0 $(cat pid)
'

test_done
