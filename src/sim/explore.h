/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_EXPLORE_H
#define COP_SIM_EXPLORE_H

#include "sim/world.h"

#define COP__X_NODES COP_SIM_EXPLORE_NODES
#define COP__X_ANSWERS 32u

/* What can happen next in a world of the explorer. */
enum cop__move_kind {
    COP__MOVE_SUBMIT, /* the first: the probe is submitted at a */
    COP__MOVE_RECV,   /* a gets the first of what is on its way from b */
    COP__MOVE_CLOSED, /* a hears that dead b closed; what was still on its way is lost */
    COP__MOVE_TICK,   /* time goes on to the deadline of a */
    COP__MOVE_CRASH,  /* a crashes */
    COP__MOVE_LIE,    /* a is told that b refused, though it lives */
    COP__MOVE_AGREE,  /* a calls its next agreement */
};
#define COP__MOVE_WHOLE 0xff /* cut: the step is carried out to its end */

struct cop__move {
    uint8_t kind;
    uint8_t a, b;
    uint8_t cut; /* a crashes in this step, after so many of its sends */
};

/* A set of RECV, CLOSED and AGREE moves: a bit for each. Other moves are in no set. */
struct cop__moves {
    uint64_t bits[2];
};
void cop__moves_add(struct cop__moves *set, uint32_t n, struct cop__move move);
bool cop__moves_has(const struct cop__moves *set, uint32_t n, struct cop__move move);
/* The members that are at other nodes than `node`. */
struct cop__moves cop__moves_elsewhere(const struct cop__moves *set, uint32_t n,
                                       uint32_t node);

/* ---- explore_world.c ------------------------------------------------------------- */

/* Something on its way. */
struct cop__item {
    uint8_t kind; /* COP__SIM_FRAME, UP or DOWN */
    uint16_t frame_kind;
    uint64_t word;
    cop_epoch view;
    struct cop_buf *payload;
};
struct cop__way {
    struct cop__item *items;
    uint32_t first, count, capacity;
};

/* The front-end of a stream. */
struct cop__front {
    cop_id at;              /* the root where it is; NONE: nowhere */
    cop_epoch epoch;        /* of the view that made that root */
    uint64_t seen, taken;   /* waves */
    uint64_t sent, reached; /* packets down */
    bool waits;             /* it was told to wait with the next */
};

/*
 * A small cluster whose next step somebody else chooses. It is a struct cop_sim with nodes
 * and checkers but without queue and network.
 */
struct cop__world {
    const struct cop_sim_explore *config;
    struct cop_sim sim;
    struct cop__sim_node nodes[COP__X_NODES];
    struct cop__way ways[COP__X_NODES][COP__X_NODES]; /* [from][to] */
    bool linked[COP__X_NODES][COP__X_NODES];
    bool told[COP__X_NODES][COP__X_NODES];    /* [who][of whom]: PEER_UP was the last */
    bool closing[COP__X_NODES][COP__X_NODES]; /* [dead][who has yet to hear CLOSED] */
    uint32_t crashes, lies;                   /* still to come */
    uint32_t completions;
    uint32_t called[COP__X_NODES]; /* agreements, by each */
    uint32_t sends;                /* of the last step */
    struct cop__answer answers[COP__X_ANSWERS];
    uint32_t answer_count;
    struct cop_stream_options options;
    struct cop_buf *definition; /* of these */
    struct cop__front front;
    bool gives[COP__X_NODES]; /* its back-end has room */
    bool touched;             /* the last step had to do with the front-end */
    uint64_t steps;
    bool started;
    bool quiet; /* connections are made without PEER_UP: the start */
};

int cop__world_create(const struct cop_sim_explore *config, struct cop__world **out);
void cop__world_destroy(struct cop__world *world);
/* All that can happen, in a fixed order; returns how many. */
#define COP__MOVES_MAX (4 * COP__X_NODES * COP__X_NODES)
uint32_t cop__world_moves(const struct cop__world *world,
                          struct cop__move moves[COP__MOVES_MAX]);
/* Makes one happen. A violation is in world->sim.failure. */
void cop__world_apply(struct cop__world *world, struct cop__move move);
/* Two digests of everything that the future depends on. */
void cop__world_digest(const struct cop__world *world, uint64_t out[2]);
void cop__world_print_move(const struct cop__world *world, struct cop__move move,
                           char *out, size_t size);

/* A step of a node, and what comes of it. What the node said. */
int cop__world_step(struct cop__world *world, uint32_t id, struct cop_event *event,
                    uint8_t cut);

/* ---- explore_stream.c ------------------------------------------------------------ */

void cop__world_open_stream(struct cop__world *world);
void cop__world_hear_stream(struct cop__world *world, uint32_t id,
                            const struct cop_effect *effect);
/* Front-end and back-end at this node do what they can. */
void cop__world_serve(struct cop__world *world, uint32_t id, uint8_t cut);
void cop__world_digest_stream(const struct cop__world *world,
                              struct cop__digest *digest);

/* ---- explore_set.c --------------------------------------------------------------- */

#define COP__NO_STATE UINT32_MAX

struct cop__state {
    uint64_t key[2];
    struct cop__moves sleep; /* moves that need not be tried here */
    uint32_t parent;         /* state from which `move` first came here */
    struct cop__move move;
    uint32_t depth;
};

struct cop__states {
    struct cop__state *items;
    uint32_t count, capacity;
    uint32_t *slots; /* index + 1, or 0 */
    uint32_t slot_count;
};

/* The state with this key, or a new one (*fresh); COP__NO_STATE if there is no memory. */
uint32_t cop__states_get(struct cop__states *states, const uint64_t key[2],
                         bool *fresh);
uint64_t cop__states_bytes(const struct cop__states *states);
void cop__states_fini(struct cop__states *states);

#endif
