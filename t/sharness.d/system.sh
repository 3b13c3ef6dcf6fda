# Helpers of the system tests (t5xxx, t6xxx): Python beside the shell, a job's body that can be waited for.
# $LIB holds the Python modules; they find the instance by $WEIR_URI and the programs by $WEIR_BIN.
LIB="$SHARNESS_TEST_SRCDIR/lib"
export LIB PYTHONDONTWRITEBYTECODE=1

# py MODULE ARGUMENTS: runs t/lib/MODULE.py
py () {
	py_module=$1
	shift
	PYTHONPATH="$LIB" python3 "$LIB/$py_module.py" "$@"
}

# tap_start FILE [REQUEST]: follows the journal into FILE until the end of the test; returns once it is caught up.
tap_start () {
	mkfifo "$1.ready" &&
	{ py tap "$@" >"$1.ready" 2>"$1.err" & } &&
	tap_pid=$! &&
	cleanup "kill $tap_pid 2>/dev/null || :" &&
	read tap_word <"$1.ready" &&
	test "$tap_word" = ready
}
