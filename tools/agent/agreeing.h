/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_AGREEING_H
#define COP_TOOLS_AGENT_AGREEING_H

#include "net/tcp/driver.h"
#include "net/tcp/notice.h"
#include "talk/agree_body.h"
#include "talk/serve.h"

/*
 * Agreements of agents. The agent that a command asks makes a group of all members, tells
 * each of them by a message what it is to take part in, and calls; so do they, each as soon as
 * it hears of it. In the end they agree whether all have had the same results, which is
 * what nobody outside could see, and give the group back.
 *
 * What a life has begun ends with it. A command that goes away ends nothing: the others have
 * been told.
 */
struct agreeing;

/* Others can begin as many as they like, and never call: of more nothing is kept. */
#define AGREEINGS_MAX 256u

struct agreeings {
    struct cop__tcp *tcp; /* NULL while there is no node */
    uv_loop_t *loop;
    const struct cop_log *log;
    cop_id self;
    cop_incarnation incarnation;
    struct agreeing *first;
    uint32_t count;
    struct cop__notice differed, not_freed, not_taken;
    uint32_t next; /* for tokens */
    uint32_t begun;
};

void agreeings_init(struct agreeings *agreeings, uv_loop_t *loop,
                    const struct cop_log *log);
/* A node is there. */
void agreeings_begin(struct agreeings *agreeings, struct cop__tcp *tcp, cop_id self,
                     cop_incarnation incarnation);
/* It is gone: whoever waits is told why. */
void agreeings_end(struct agreeings *agreeings, int why);

/* The AGREE command of a session. */
void agreeings_order(struct agreeings *agreeings, struct session *session,
                     struct cop__bytes body);
/* A message of another agent; false if it is about something else. */
bool agreeings_deliver(struct agreeings *agreeings, const struct cop_buf *bytes);
/* False if it was about something else. */
bool agreeings_complete(struct agreeings *agreeings, uint64_t token, int status,
                        const struct cop_buf *result);
void agreeings_written(struct agreeings *agreeings, const struct session *session);
void agreeings_closed(struct agreeings *agreeings, const struct session *session);

#endif
