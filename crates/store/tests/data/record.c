/* Preloaded into a writer by power.rs: writes down, in order, what it asks the kernel to change in the files of its store (and in `told`),
 * and when it asks for that to reach the disk. A record: kind, length of the name, name, offset, length, data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;

static ssize_t real_write(int fd, const void *data, size_t len) {
	static ssize_t (*call)(int, const void *, size_t);
	if (!call) call = dlsym(RTLD_NEXT, "write");
	return call(fd, data, len);
}

static void put(const void *data, size_t len) {
	const char *at = data;
	while (len > 0) {
		ssize_t done = real_write(out, at, len);
		if (done <= 0) _exit(99);
		at += done;
		len -= (size_t)done;
	}
}

/* The last part of the path, if the file is one of ours. */
static const char *name_of(int fd, char *path, size_t size) {
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, size - 1);
	if (len <= 0) return NULL;
	path[len] = 0;
	const char *name = strrchr(path, '/');
	if (!name) return NULL;
	name++;
	if (strcmp(path, getenv("STORE_TEST_POWER_DIR") ? getenv("STORE_TEST_POWER_DIR") : "") == 0) return ".";
	return strncmp(name, "store.sqlite", 12) == 0 || strcmp(name, "told") == 0 ? name : NULL;
}

static void record_name(char kind, const char *name, uint64_t offset, const void *data, uint64_t len) {
	const char *to = getenv("RECORD_TO");
	if (!name || !to) return;
	pthread_mutex_lock(&lock);
	if (out < 0) out = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	uint8_t size = (uint8_t)strlen(name);
	put(&kind, 1);
	put(&size, 1);
	put(name, size);
	put(&offset, 8);
	put(&len, 8);
	if (data) put(data, len);
	pthread_mutex_unlock(&lock);
}

static void record(char kind, int fd, uint64_t offset, const void *data, uint64_t len) {
	char path[4096];
	record_name(kind, name_of(fd, path, sizeof path), offset, data, len);
}

int unlink(const char *path) {
	static int (*call)(const char *);
	if (!call) call = dlsym(RTLD_NEXT, "unlink");
	int done = call(path);
	const char *name = strrchr(path, '/');
	if (done == 0 && name && strncmp(name + 1, "store.sqlite", 12) == 0) record_name('u', name + 1, 0, NULL, 0);
	return done;
}

ssize_t write(int fd, const void *data, size_t len) {
	off_t at = fd > 2 && fd != out ? lseek(fd, 0, SEEK_CUR) : -1;
	ssize_t done = real_write(fd, data, len);
	if (done > 0 && at >= 0) record('w', fd, (uint64_t)at, data, (uint64_t)done);
	return done;
}

#define PWRITE(NAME) \
	ssize_t NAME(int fd, const void *data, size_t len, off64_t at) { \
		static ssize_t (*call)(int, const void *, size_t, off64_t); \
		if (!call) call = dlsym(RTLD_NEXT, #NAME); \
		ssize_t done = call(fd, data, len, at); \
		if (done > 0) record('w', fd, (uint64_t)at, data, (uint64_t)done); \
		return done; \
	}
PWRITE(pwrite)
PWRITE(pwrite64)

#define TRUNCATE(NAME) \
	int NAME(int fd, off64_t len) { \
		static int (*call)(int, off64_t); \
		if (!call) call = dlsym(RTLD_NEXT, #NAME); \
		int done = call(fd, len); \
		if (done == 0) record('t', fd, (uint64_t)len, NULL, 0); \
		return done; \
	}
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(NAME) \
	int NAME(int fd) { \
		static int (*call)(int); \
		if (!call) call = dlsym(RTLD_NEXT, #NAME); \
		int done = call(fd); \
		if (done == 0) record('s', fd, 0, NULL, 0); \
		return done; \
	}
SYNC(fsync)
SYNC(fdatasync)
