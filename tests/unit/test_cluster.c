/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "names/cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD "cluster 00112233445566778899aabbccddeeff\n"

static char path[64];

static void write_file(const char *text)
{
    strcpy(path, "/tmp/test_cluster.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static struct cluster open_text(const char *text)
{
    struct cluster cluster;
    char message[300] = "";
    write_file(text);
    if (cluster_open(path, false, &cluster, message, sizeof message) != 0)
        fail_msg("%s", message);
    unlink(path);
    return cluster;
}

static void reads_what_is_written(void **state)
{
    (void)state;
    struct cluster cluster = open_text(HEAD "# a comment\n\ninstance 7\nfirst 9\n"
                                            "shape kary:3\n0 alpha unix:a.sock\n"
                                            "# another\n1 beta tcp:127.0.0.1:7001\n"
                                            "2 gamma tcp:[::1]:7002");
    char name[NODESET_NAME_LENGTH + 1];
    struct cop__address address;
    assert_int_equal(cluster.n, 3);
    assert_int_equal(cluster.id[1], 0x11);
    assert_int_equal(cluster.instance, 7);
    assert_int_equal(cluster.first, 9);
    assert_int_equal(cluster.shape.kind, COP_SHAPE_KARY);
    assert_int_equal(cluster.shape.k, 3);
    cluster_name(&cluster, 2, name);
    assert_string_equal(name, "gamma");

    assert_int_equal(cluster_address(&cluster, 0, &address), 0);
    assert_string_equal(((struct sockaddr_un *)&address.storage)->sun_path,
                        "/tmp/a.sock");
    assert_int_equal(cluster_address(&cluster, 1, &address), 0);
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address.storage;
    assert_int_equal(ntohs(v4->sin_port), 7001);
    assert_int_equal(ntohl(v4->sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(cluster_address(&cluster, 2, &address), 0);
    assert_int_equal(address.storage.ss_family, AF_INET6);
    assert_int_equal(cluster_address(&cluster, 3, &address), COP_ENOENT);
    cluster_close(&cluster);
}

/* More members than one step of the index, with comments between them. */
static void finds_every_member_of_many(void **state)
{
    (void)state;
    enum { N = 300 };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs(HEAD, out);
    for (unsigned i = 0; i < N; i++)
        fprintf(out, "%s%u host%u unix:%u.sock\n", i % 7 == 0 ? "# seven\n" : "", i,
                1000 + i, i);
    fclose(out);
    struct cluster cluster = open_text(text);
    free(text);
    assert_int_equal(cluster.n, N);
    for (unsigned i = 0; i < N; i++) {
        char expected[32], name[NODESET_NAME_LENGTH + 1], address[64];
        cluster_name(&cluster, i, name);
        snprintf(expected, sizeof expected, "host%u", 1000 + i);
        assert_string_equal(name, expected);
        cluster_address_text(&cluster, i, address, sizeof address);
        snprintf(expected, sizeof expected, "unix:%u.sock", i);
        assert_string_equal(address, expected);
    }
    cluster_close(&cluster);
}

static void assert_selects(const struct cluster *cluster, const char *text,
                           const char *folded)
{
    char copy[64], message[200] = "";
    char *texts[] = {copy};
    struct cop_ranks ids = {0};
    strcpy(copy, text);
    if (cluster_select(cluster, texts, 1, &ids, message, sizeof message) != 0)
        fail_msg("%s: %s", text, message);
    char *got = cluster_fold(cluster, ids.items, ids.count);
    assert_non_null(got);
    assert_string_equal(got, folded);
    free(got);
    cop_ranks_free(&ids);
}

static void members_by_name_id_and_set(void **state)
{
    (void)state;
    struct cluster cluster = open_text(HEAD "0 n0 unix:a\n1 n1 unix:b\n2 login unix:c\n"
                                            "3 0 unix:d\n");
    assert_selects(&cluster, "n1", "n1");
    assert_selects(&cluster, "1", "n1");
    assert_selects(&cluster, "2", "login");
    /* A name goes before an id. */
    assert_selects(&cluster, "0", "0");
    assert_selects(&cluster, "n[0-1],login,n0", "login,n[0-1]");
    assert_selects(&cluster, "!n1", "0,login,n0");
    char bad[] = "n7", message[200];
    char *texts[] = {bad};
    struct cop_ranks ids = {0};
    assert_int_equal(cluster_select(&cluster, texts, 1, &ids, message, sizeof message),
                     COP_EINVAL);
    assert_string_equal(message, "there is no member 'n7'");
    cluster_close(&cluster);
}

static void who_has_an_impossible_name_is_called_by_id(void **state)
{
    (void)state;
    struct cluster cluster = open_text(HEAD "0 n0 unix:a\n1 n1 unix:b\n");
    struct cluster_extra extras[] = {{7, "a b", "unix:c"},
                                     {COP_ID_NONE, "!x", "unix:d"}};
    const cop_id both[] = {2, 3};
    cluster.extras = extras;
    cluster.extra_count = 2;
    assert_selects(&cluster, "!n0", "7,n1");
    char *folded = cluster_fold(&cluster, both, 2);
    assert_non_null(folded);
    assert_string_equal(folded, "7,4294967295");
    free(folded);
    cluster.extras = NULL;
    cluster.extra_count = 0;
    cluster_close(&cluster);
}

static void lines_that_are_wrong_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message; /* after the path */
    } cases[] = {
        {HEAD "0 a unix:x\nfrob 1\n", ":3: unknown key 'frob'"},
        {HEAD "0 a unix:x y\n", ":2: expected \"ID NAME ADDRESS\""},
        {HEAD "0 a unix:\n", ":2: the path of the socket is missing"},
        {HEAD "0 a tcp:1.2.3.4\n", ":2: expected tcp:HOST:PORT"},
        {HEAD "0 a tcp:1.2.3.4:x\n", ":2: a port is a number from 1 to 65535"},
        {HEAD "instance 0\n", ":2: an instance is a number above 0"},
        {HEAD "first x\n", ":2: an incarnation is a number above 0"},
        {HEAD "0 a unix:x\n1 a unix:y\n", ": two members are called 'a'"},
        {HEAD, ": there are no members in it"},
        {"0 a unix:x\n", ": the line \"cluster ID\" is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster cluster;
        char message[300] = "";
        write_file(cases[i].text);
        int error = cluster_open(path, false, &cluster, message, sizeof message);
        unlink(path);
        assert_int_equal(error, COP_EINVAL);
        assert_string_equal(message + strlen(path), cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_written),
        cmocka_unit_test(finds_every_member_of_many),
        cmocka_unit_test(members_by_name_id_and_set),
        cmocka_unit_test(who_has_an_impossible_name_is_called_by_id),
        cmocka_unit_test(lines_that_are_wrong_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
