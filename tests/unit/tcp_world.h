/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_TCP_WORLD_H
#define COP_TESTS_TCP_WORLD_H

#include "net/tcp/peers.h"

/*
 * A few members in one process on one loop, over real sockets. In the place of a node each
 * has a side that sends numbered frames, and checks that those of the others come once and
 * in order.
 */
#define WORLD_SIDES 4
#define WORLD_LINES 64

struct world;

/* What one side has exchanged with one other, by lane. */
struct exchange {
    uint64_t sent[COP__LANES], came[COP__LANES];
};

struct side {
    struct world *world;
    cop_id id;
    cop_incarnation incarnation;
    bool is_open;
    struct cop__clock clock;
    struct cop__peers *peers;
    struct cop__tcp_stats stats;
    struct exchange with[WORLD_SIDES];
    /* Events, by the other side. */
    uint32_t ups[WORLD_SIDES], downs[WORLD_SIDES][3];
    cop_incarnation lives[WORLD_SIDES]; /* as PEER_UP said */
    cop_incarnation known[WORLD_SIDES]; /* as if somebody had told */
    uint32_t chokes, relieves;          /* SENT above and below the limit */
    uint32_t cooled;                    /* what was held in reserve is gone */
    uint32_t others;                    /* PEER_UP of ids that are no side */
    uint32_t commands;                  /* of guests */
    uint64_t guest;                     /* who gave the last one */
    struct cop_log log;
    uint32_t lines;
    char line[256]; /* the last one */
    uint32_t handles;
};

struct world {
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_check_t check;
    struct cop_view *view;
    int family;           /* AF_UNIX or AF_INET */
    struct cop__tls *tls; /* for sides that are opened from now on; may be NULL */
    struct cop__tls *own_tls;
    char folder[64];
    /* Of sides, where certificates have to say it; NULL: not known (yet). */
    const char *names[WORLD_SIDES];
    struct cop__address addresses[WORLD_SIDES]; /* where others look for a side */
    struct side sides[WORLD_SIDES];
    /* For the sides that are opened from now on; 0 for values that never matter. */
    cop_time connect_timeout_ns, idle_close_ns, handshake_timeout_ns;
    cop_time patience_ns; /* D15 */
    uint32_t strangers_max;
    uint8_t cluster;
    bool is_open; /* whoever calls may be a member */
    /* What a node might do when it hears of it; may be NULL. */
    void (*on_down)(struct side *side, cop_id peer);
    bool no_reads;
    bool has_guests; /* whoever is no member may give commands */
    int listen_fd; /* of the side that is opened next, if it listens already; else 0 */
};

/* AF_UNIX, AF_INET, or AF_INET with a key that all sides have. */
#define WORLD_TLS (AF_INET + 1000)
struct world *world_create(int family);
/* Something with a new key to prove oneself with; to be destroyed before the world is. */
struct cop__tls *world_make_tls(struct world *world, const char *name);
void world_destroy(struct world *world);

/* Opens a side at an address of its own. */
struct side *world_open(struct world *world, cop_id id, cop_incarnation incarnation);
/* Ends a side with BYE, and runs the loop until it is gone. */
void world_close(struct side *side);
/* Ends it as a crash would: its sockets just close. */
void world_crash(struct side *side);

/* A listening socket, and its address. */
int world_listen(struct world *world, const char *name, struct cop__address *out);
/* A plain blocking connection to a side. */
int world_dial(struct world *world, cop_id id);

/* Sends `count` frames of `length` bytes; DATA are bulk, all others control. */
void side_send(struct side *side, cop_id to, uint16_t kind, uint32_t count,
               uint32_t length);
/* Whether all that `from` sent to `to` has come. */
bool side_has_all(const struct side *from, const struct side *to);
uint32_t side_downs(const struct side *side, cop_id other);

/* Runs the loop until `is_done`. It fails if that takes absurdly long. */
void world_until(struct world *world, bool (*is_done)(void *context), void *context);
/* The same, until a counter is at least so high. */
void world_until_count(struct world *world, const uint32_t *counter, uint32_t least);
void world_until_stat(struct world *world, const uint64_t *counter, uint64_t least);
/* Runs the loop once, without waiting. */
void world_turn(struct world *world);

#endif
