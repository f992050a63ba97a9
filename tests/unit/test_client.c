/* SPDX-License-Identifier: Apache-2.0 */
/* The command's end of a conversation, when the other end hangs up between two commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "talk/client.h"

/* Somebody who listens, and a client who has called. */
struct line {
    char folder[32];
    struct sockaddr_un address;
    int listener, session;
    struct client client;
};

static int set_up(void **state)
{
    struct line *line = calloc(1, sizeof *line);
    assert_non_null(line);
    *line = (struct line){.folder = "/tmp/coppice-client-XXXXXX",
                          .address.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(line->folder));
    snprintf(line->address.sun_path, sizeof line->address.sun_path, "%s/socket",
             line->folder);
    line->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(line->listener, (const struct sockaddr *)&line->address,
                          sizeof line->address),
                     0);
    assert_int_equal(listen(line->listener, 4), 0);
    assert_int_equal(client_open(line->address.sun_path, &line->client), 0);
    line->session = accept(line->listener, NULL, NULL);
    assert_true(line->session >= 0);
    *state = line;
    return 0;
}

static void stop_listening(struct line *line)
{
    close(line->listener);
    unlink(line->address.sun_path);
    line->listener = -1;
}

static int tear_down(void **state)
{
    struct line *line = *state;
    close(line->session);
    if (line->listener >= 0)
        stop_listening(line);
    client_close(&line->client);
    rmdir(line->folder);
    free(line);
    return 0;
}

/* Whether a command has come on the session. */
static void assert_heard(const struct line *line)
{
    uint8_t bytes[256];
    assert_true(recv(line->session, bytes, sizeof bytes, 0) > 0);
}

static void a_conversation_is_opened_again(void **state)
{
    struct line *line = *state;
    for (int i = 0; i < 3; i++) {
        close(line->session);
        assert_int_equal(client_send(&line->client, VERB_STATUS, NULL), 0);
        line->session = accept(line->listener, NULL, NULL);
        assert_heard(line);
    }
}

/* What was said before the end changes nothing. */
static void also_behind_something_unread(void **state)
{
    struct line *line = *state;
    assert_int_equal(send(line->session, "x", 1, 0), 1);
    close(line->session);
    assert_int_equal(client_send(&line->client, VERB_STATUS, NULL), 0);
    line->session = accept(line->listener, NULL, NULL);
    assert_heard(line);
}

static void one_that_goes_on_is_kept(void **state)
{
    struct line *line = *state;
    int fd = line->client.fd;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_send(&line->client, VERB_STATUS, NULL), 0);
        assert_heard(line);
    }
    assert_int_equal(line->client.fd, fd);
}

static void who_is_gone_is_lost(void **state)
{
    struct line *line = *state;
    close(line->session);
    stop_listening(line);
    assert_int_equal(client_send(&line->client, VERB_STATUS, NULL), COP_ELOST);
    assert_int_equal(client_send(&line->client, VERB_STATUS, NULL), COP_ELOST);
    line->session = -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_conversation_is_opened_again),
        TEST(also_behind_something_unread),
        TEST(one_that_goes_on_is_kept),
        TEST(who_is_gone_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
