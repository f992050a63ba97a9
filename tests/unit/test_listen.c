/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets: who may use them, and who listens there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/listen.h"
#include "talk/client.h"

#include <coppice/error.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 3000

static char folder[] = "/tmp/coppice-test-XXXXXX";

static int begin(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* How many sockets were open to others. */
static void *listen_often(void *name)
{
    char path[64];
    intptr_t wrong = 0;
    snprintf(path, sizeof path, "%s/%s", folder, (const char *)name);
    for (int i = 0; i < TURNS; i++) {
        struct stat status;
        int fd = cop__listen_unix(path);
        wrong += fd < 0 || stat(path, &status) != 0 || (status.st_mode & 0777) != 0600;
        close(fd);
        unlink(path);
    }
    return (void *)wrong;
}

/* Also with several threads, and a mask that allows everything; and the mask stays. */
static void a_socket_is_private(void **state)
{
    pthread_t thread;
    char one[] = "one", two[] = "two";
    void *wrong;
    (void)state;
    mode_t before = umask(0);
    assert_int_equal(pthread_create(&thread, NULL, listen_often, one), 0);
    assert_null(listen_often(two));
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    assert_int_equal(umask(before), 0);
}

/* As another user; the status of the child is what `what` returns. */
static int as_user(uid_t user, int (*what)(const char *path), const char *path)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(setuid(user) == 0 ? what(path) : 99);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int call(const char *path)
{
    struct client client;
    int error = client_open(path, &client);
    if (error == 0)
        client_close(&client);
    return -error;
}

/* What is asked for there, and put there, is not for whoever took the place of an agent. */
static void a_command_does_not_talk_to_others(void **state)
{
    char path[64];
    (void)state;
    if (geteuid() != 0)
        skip();
    snprintf(path, sizeof path, "%s/agent", folder);
    assert_int_equal(chmod(folder, 0755), 0);
    /* Who listens is whoever called listen(2). */
    assert_int_equal(chown(folder, 12345, (gid_t)-1), 0);
    assert_int_equal(seteuid(12345), 0);
    int fd = cop__listen_unix(path);
    assert_true(fd >= 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(as_user(12345, call, path), 0);
    assert_int_equal(as_user(0, call, path), 0);
    assert_int_equal(as_user(12346, call, path), -COP_EREFUSED);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_is_private),
        cmocka_unit_test(a_command_does_not_talk_to_others),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
