/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts/list.h"
#include "hosts/ssh.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Hosts as people write them, and what a shell at a host is told. */

static char message[300];

static struct hosts_list read_good(const char *text)
{
    struct hosts_list list = {0};
    if (hosts_list_read(text, "joe", 7640, &list, message, sizeof message) != 0)
        fail_msg("%s: %s", text, message);
    return list;
}

static void assert_bad(const char *text, const char *why)
{
    struct hosts_list list = {0};
    assert_int_equal(hosts_list_read(text, "", 7640, &list, message, sizeof message),
                     COP_EINVAL);
    if (strstr(message, why) == NULL)
        fail_msg("%s: '%s' is not in: %s", text, why, message);
    assert_null(list.items);
}

static void assert_host(const struct host *host, const char *user, const char *name,
                        const char *name_of_member, uint16_t port)
{
    assert_string_equal(host->user, user);
    assert_string_equal(host->host, name);
    assert_string_equal(host->name, name_of_member);
    assert_int_equal(host->port, port);
}

static void test_node_sets(void **state)
{
    (void)state;
    struct hosts_list list = read_good("node[1-2],gate");
    assert_int_equal(list.count, 3);
    assert_host(&list.items[0], "joe", "gate", "gate", 7640);
    assert_host(&list.items[2], "joe", "node2", "node2", 7640);
    hosts_list_free(&list);
    list = read_good("10.0.0.[1-3]");
    assert_int_equal(list.count, 3);
    assert_host(&list.items[1], "joe", "10.0.0.2", "10.0.0.2", 7640);
    hosts_list_free(&list);
    list = read_good("fe80::1");
    assert_host(&list.items[0], "joe", "fe80::1", "fe80::1", 7640);
    hosts_list_free(&list);
    assert_bad("", "");
    assert_bad("node[1", "");
    assert_bad("-oProxyCommand=x", "");
}

/* The text in a file, by its path. */
static const char *write_text(const char *text)
{
    static char path[] = "/tmp/coppice-hosts-XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void test_files(void **state)
{
    (void)state;
    const char *path = write_text("# hosts\n\n"
                                  "  node[1-2]:7700   # two\n"
                                  "ann@gate name=door address=10.1.0.9\n"
                                  "[fe80::2]:7701\n"
                                  "last");
    struct hosts_list list = read_good(path);
    assert_int_equal(list.count, 5);
    assert_host(&list.items[0], "joe", "node1", "node1", 7700);
    assert_host(&list.items[2], "ann", "gate", "door", 7640);
    assert_string_equal(list.items[2].address, "10.1.0.9");
    assert_host(&list.items[3], "joe", "fe80::2", "fe80::2", 7701);
    assert_host(&list.items[4], "joe", "last", "last", 7640);
    hosts_list_free(&list);
    unlink(path);
}

static void assert_bad_file(const char *text, const char *why)
{
    const char *path = write_text(text);
    assert_bad(path, why);
    unlink(path);
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    assert_bad("/nonexistent/hosts", "No such file");
    assert_bad_file("a\nb port=3\n", ":2: expected name=NAME");
    assert_bad_file("a:99999\n", ":1: '99999' is not a port");
    assert_bad_file("a\na\n", "two members are called 'a'");
    assert_bad_file("n[1-2] name=x\n", "of one host");
    assert_bad_file("a address=gate\n", "not a number");
    assert_bad_file("ann@\n", "there is no host");
    assert_bad_file("a name=b/c\n", "'b/c' cannot be a name");
    assert_bad_file("# nobody\n", "there are no hosts");
}

/* A member "7" could not be told from the one whose id is 7. */
static void test_digits_are_ids(void **state)
{
    (void)state;
    const char *path = write_text("12 name=twelve\n");
    struct hosts_list list = read_good(path);
    assert_host(&list.items[0], "joe", "12", "twelve", 7640);
    hosts_list_free(&list);
    unlink(path);
    list = read_good("7a,10.0.0.7");
    assert_int_equal(list.count, 2);
    hosts_list_free(&list);
    assert_bad("[7-8]", "'7' cannot be a name: 1 to 63 letters, digits and -_.: and "
                        "not only digits; in a file, name=NAME gives the host one");
    assert_bad_file("a\n12\n", ":2: '12' cannot be a name: ");
    assert_bad_file("a name=007\n", ":1: '007' cannot be a name: ");
}

static void test_addresses(void **state)
{
    (void)state;
    char text[100];
    struct host host = {.address = "10.0.0.1", .port = 7};
    host_address(&host, text, sizeof text);
    assert_string_equal(text, "tcp:10.0.0.1:7");
    host = (struct host){.address = "fe80::1", .port = 7};
    host_address(&host, text, sizeof text);
    assert_string_equal(text, "tcp:[fe80::1]:7");
    assert_true(host_is_loopback("127.0.1.1"));
    assert_true(host_is_loopback("::1"));
    assert_false(host_is_loopback("10.127.0.1"));
    host = (struct host){.host = "127.0.0.1"};
    assert_int_equal(host_resolve(&host, message, sizeof message), 0);
    assert_string_equal(host.address, "127.0.0.1");
}

/* Whatever is in a name stays one word, and is not carried out. */
static void test_words_for_a_shell(void **state)
{
    (void)state;
    const char *const words[] = {"printf", "%s|%s", "it's $(date) \"; `id`", "*", NULL};
    char line[100] = "", *text = ssh_quote(words);
    assert_non_null(text);
    /* A shell is what it is for. NOLINTNEXTLINE(cert-env33-c) */
    FILE *shell = popen(text, "r");
    assert_non_null(shell);
    assert_non_null(fgets(line, sizeof line, shell));
    pclose(shell);
    assert_string_equal(line, "it's $(date) \"; `id`|*");
    free(text);

    struct ssh ssh;
    assert_int_equal(ssh_parse("  ssh -p  22 ", &ssh, message, sizeof message), 0);
    assert_string_equal(ssh.words[2], "22");
    assert_null(ssh.words[3]);
    assert_int_equal(ssh_parse("  ", &ssh, message, sizeof message), COP_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_sets),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_digits_are_ids),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_words_for_a_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
