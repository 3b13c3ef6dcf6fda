# Loads Debian's sharness for a test of weir: `. "$(dirname "$0")/sharness.sh"`, then test_expect_success …, weir_stop, test_done.
#
# Each test file runs in a folder of its own ("trash directory.NAME") below target/t, so that tests run side by side and from any
# working directory. The programs tested are those in $WEIR_BIN, else target/debug. What sharness.d/ defines comes on top.

SHARNESS_TEST_SRCDIR=$(cd "$(dirname "$0")" && pwd)
export SHARNESS_TEST_SRCDIR

if test ! -e /usr/share/sharness/sharness.sh
then
	echo "Bail out! sharness is not installed: apt-get install sharness (or: make deps)"
	exit 1
fi

if test -z "$WEIR_BIN"
then
	WEIR_BIN=$(cd "$SHARNESS_TEST_SRCDIR/.." && pwd)/target/debug
	export WEIR_BIN
fi
if test ! -x "$WEIR_BIN/weir"
then
	echo "Bail out! $WEIR_BIN/weir is not there: cargo build --bins (or set WEIR_BIN to the folder of weir's programs)"
	exit 1
fi
SHARNESS_BUILD_DIRECTORY=$WEIR_BIN

if test -z "$SHARNESS_TEST_DIRECTORY"
then
	SHARNESS_TEST_DIRECTORY=$(cd "$SHARNESS_TEST_SRCDIR/.." && pwd)/target/t
	# A socket's path may have 107 bytes, and the names below this folder take 60 of them.
	if test ${#SHARNESS_TEST_DIRECTORY} -gt 45
	then
		SHARNESS_TEST_DIRECTORY=${TMPDIR:-/tmp}/weir-t.$(id -u)
	fi
	mkdir -p "$SHARNESS_TEST_DIRECTORY" || exit 1
fi

# An instance of the user's own must never be met.
unset WEIR_URI FLUX_URI WEIR_EXEC_DIR WEIR_LOG XDG_STATE_HOME

. /usr/share/sharness/sharness.sh
