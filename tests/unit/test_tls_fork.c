/* SPDX-License-Identifier: Apache-2.0 */
/* What was mapped of OpenSSL before a fork is mapped after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/tls/tls.h"

static long faults_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* How many faults it takes to look at code of the library. */
static long look(void)
{
    const volatile unsigned char *code =
        (const volatile unsigned char *)(uintptr_t)SSL_do_handshake;
    long before = faults_now();
    (void)*code;
    return faults_now() - before;
}

/* In a process of its own, which has to find a page of stack first. */
static int look_in_child(void)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)faults_now();
        _exit((int)look());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void code_that_was_there_is_there_after_a_fork(void **state)
{
    (void)state;
    look();
    int before = look_in_child();
    if (!cop__tls_before_fork())
        skip();
    look();
    assert_true(look_in_child() < before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_that_was_there_is_there_after_a_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
