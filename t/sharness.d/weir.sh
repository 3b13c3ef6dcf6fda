# An instance of its own for a test, and waiting without sleeping.
#
#   weir_instance [--keep-jobs] [ARGUMENTS OF weir start]   in ./state; sets WEIR_URI; returns when it is ready
#   weir_stop                                               stops it and waits until it is gone; jobs end with it unless kept
#   weir_daemon NAME                                        the pid of weir-job-manager, weir-job-info or weir-job-runner
#   weir_fails STATUS TEXT… -- COMMAND…                     ends with that status, prints nothing, says one line with all texts
#
# Instances that a test leaves behind, because it failed, are stopped when its shell ends.

# Longest wait for an instance, in seconds. Nothing waits that long when all is well.
WEIR_READY_WITHIN=60

weir_instance () {
	weir_die=--runner-arg=--die-with-supervisor
	if test "$1" = --keep-jobs
	then
		weir_die=
		shift
	fi
	rm -f ready start.err && mkfifo ready || return 1
	weir start --statedir="$PWD/state" $weir_die "$@" >ready 2>start.err &
	WEIR_PID=$!
	echo $WEIR_PID >>"$SHARNESS_TRASH_DIRECTORY/instances"
	WEIR_URI=local://$PWD/state/socket
	export WEIR_PID WEIR_URI
	# The line comes when it is ready; the end of the file, when it cannot be.
	case $(timeout $WEIR_READY_WITHIN head -n 1 ready) in
	"weir: ready"*) return 0 ;;
	esac
	cat start.err >&2
	return 1
}

weir_stop () {
	if test -n "$WEIR_PID"
	then
		kill -TERM $WEIR_PID 2>/dev/null
		wait $WEIR_PID
		weir_stopped=$?
		sed -i "/^$WEIR_PID\$/d" "$SHARNESS_TRASH_DIRECTORY/instances"
		WEIR_PID=
		return $weir_stopped
	fi
}

weir_daemon () {
	for weir_process in $(cat /proc/$WEIR_PID/task/*/children)
	do
		if tr '\0' '\n' 2>/dev/null </proc/$weir_process/cmdline | sed -n 's,.*/,,;1p' | grep -q -x "$1"
		then
			echo $weir_process
			return 0
		fi
	done
	return 1
}

weir_fails () {
	weir_expected=$1
	shift
	: >fails.texts
	while test "$1" != --
	do
		printf '%s\n' "$1" >>fails.texts
		shift
	done
	shift
	"$@" >fails.out 2>fails.err
	weir_status=$?
	if test $weir_status != $weir_expected || test -s fails.out || test $(wc -l <fails.err) != 1
	then
		echo "status $weir_status, expected $weir_expected; on stdout and stderr:"
		cat fails.out fails.err
		return 1
	fi
	while IFS= read -r weir_text
	do
		if ! grep -q -F -e "$weir_text" fails.err
		then
			echo "'$weir_text' is not in: $(cat fails.err)"
			return 1
		fi
	done <fails.texts
}

weir_end () {
	weir_code=$?
	if test -f "$SHARNESS_TRASH_DIRECTORY/instances"
	then
		for weir_pid in $(cat "$SHARNESS_TRASH_DIRECTORY/instances")
		do
			# Only if it is still what it was.
			if tr '\0' ' ' 2>/dev/null </proc/$weir_pid/cmdline | grep -q -F "weir start --statedir=$SHARNESS_TRASH_DIRECTORY"
			then
				kill -TERM $weir_pid 2>/dev/null
				timeout 30 tail --pid=$weir_pid -f /dev/null
			fi
		done
	fi
	(exit $weir_code)
	die
}
trap weir_end EXIT

# test_line_count = N FILE
test_line_count () {
	if ! test $(wc -l <"$3") $1 $2
	then
		echo "$3 should have $1 $2 lines, it has:"
		cat "$3"
		return 1
	fi
}
