/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_WORLD_H
#define COP_SIM_WORLD_H

#include <coppice/filter.h>
#include <coppice/sim.h>

#include "base/digest.h"
#include "base/map.h"
#include "sim/queue.h"

/*
 * Inside the simulator. Who does what:
 *   sim.c      life of a simulation, the loop, one step of one node
 *   carry.c    what a node's effects become
 *   links.c    connections: who is told of whom, what waits, what is lost
 *   peers.c    the table of peers of a node
 *   network.c  when a frame arrives
 *   faults.c   what an action does
 *   trace.c    digest and text
 *
 * Nothing is decided by the order of addresses or of a hash table: whoever walks over
 * peers or links does so in order of ids. Nothing is drawn from a running random source:
 * every draw is a hash of the seed and of what it is about, so that taking one fault out of
 * a script leaves the others as they were.
 */

enum cop__sim_kind {
    COP__SIM_FRAME,  /* src -> dst */
    COP__SIM_UP,     /* dst hears that src, incarnation `word`, is connected */
    COP__SIM_DOWN,   /* dst hears that src is down: `word` is enum cop_down */
    COP__SIM_TOLD,   /* the same, but found by dst's own driver, not over the network */
    COP__SIM_TICK,   /* of dst */
    COP__SIM_SUBMIT, /* at dst: `word` is the index of the action */
    COP__SIM_WAKE,   /* dst looks into its inbox */
    COP__SIM_ACTION, /* `word` is the index of the action */
    COP__SIM_RECONNECT, /* the drivers of src and dst try again */
    COP__SIM_SILENT,  /* dst gives up reaching src, if partition `word` still stands */
    COP__SIM_CUTOFF,  /* all connections across partition `word` are given up */
    COP__SIM_JOINING, /* newcomer `word` asks for an invitation, if it still needs one */
    COP__SIM_ANSWER,  /* at dst: what a service says, encoded in the payload */
};

enum cop__peer_flag {
    COP__PEER_KEPT = 1, /* the owner said CONNECT */
    COP__PEER_UP = 2,   /* there is a connection; always the same at both ends */
    COP__PEER_TOLD = 4, /* the last thing on its way to the owner about it is PEER_UP */
};

/* A peer in its owner's table, and the channel from owner to peer. */
struct cop__peer {
    cop_id id;     /* COP_ID_NONE: a free slot */
    uint8_t flags; /* enum cop__peer_flag */
    uint8_t epoch; /* how often the connection broke */
    uint16_t life; /* of the peer, for which the connection was made */
    cop_time last; /* when the last thing from owner to peer arrives */
};

struct cop__peers {
    struct cop__peer *slots;
    uint32_t count, capacity;
};

struct cop__held {
    struct cop__sim_event *first, *last;
};

/* What only few channels have. Keyed by channel in cop_sim.sides. */
struct cop__side {
    struct cop__held held; /* arrived, but the way was not free, in order */
    struct cop__held
        unsent;         /* sent meanwhile: behind all of those, and all under way */
    cop_time slow_ns;   /* everything takes longer by this */
    cop_time cut_after; /* frames of life `cut_life` that arrive later are lost */
    uint16_t cut_life;
    bool recovering; /* the connection broke, and the drivers have not yet agreed */
    bool wanted;     /* src said CONNECT meanwhile */
    bool reconnect;  /* a RECONNECT is in the queue */
};

enum cop__node_flag {
    COP__NODE_PAUSED = 1,
    COP__NODE_WAKING = 2,  /* a WAKE is in the queue */
    COP__NODE_TICKING = 4, /* a TICK is in the inbox */
    COP__NODE_RULES = 8,   /* it has rules for crashes at message boundaries */
};

struct cop__sim_node {
    void *actor; /* NULL while dead */
    struct cop__peers peers;
    cop_time armed; /* time of the one TICK that counts; NEVER if none */
    cop_time busy;  /* until then events wait in the inbox */
    cop_time port;  /* until then the network interface is sending */
    struct cop__sim_event *inbox, *inbox_last;
    cop_time clock_ns; /* its clock is ahead by this */
    cop_time slow_ns;  /* and it needs so much more for each event */
    cop_time born, died;
    uint32_t sends, receives;
    uint16_t life;
    uint8_t flags;   /* enum cop__node_flag */
    uint32_t called; /* 0: n and its number; else x and this one less */
};

/* Somebody on the way in: it needs an invitation, then it is a node. */
struct cop__newcomer {
    cop_id id; /* NONE: it never was a member */
    uint32_t called;
    uint32_t tries;
    bool spare;
    bool done;
    char name[16];
};

struct cop__partition {
    struct cop_sim_set left, right;
    bool one_way;
    uint64_t number;
};

#define COP__SIM_CHECKERS 8

/* Chunks of simulated bulk are small: what matters is how many there are. */
#define COP__SIM_CHUNK_MAX 64u

/* A request as it is given to a node, with all that it points to. */
struct cop__ask {
    struct cop_request request;
    struct cop_coll coll;
    struct cop_target *targets; /* room for all nodes, made when first needed */
    uint8_t bytes[COP__SIM_CHUNK_MAX];
};
struct cop__work; /* of service.c */

struct cop_sim {
    struct cop_sim_config config;
    const struct cop_sim_actor *actor;
    struct cop_view *view;
    struct cop_view_pool *views; /* of all nodes */
    struct cop__sim_node *nodes;
    struct cop__queue queue;
    cop_time now;
    cop_time depart; /* when what the present step sends leaves */
    uint64_t events;
    struct cop__digest digest;
    struct cop_effects effects;
    struct cop_stats stats;

    struct cop_sim_action *actions; /* all that were given, by index */
    uint32_t action_count, action_capacity;
    struct cop_sim_action *rules; /* crashes at message boundaries */
    uint32_t rule_count, rule_capacity;
    struct cop__partition *partitions;
    uint32_t partition_count, partition_capacity;
    uint64_t partitions_made;
    struct cop__map sides; /* of struct cop__side */
    uint64_t draws;        /* of buggify */
    uint32_t breaks;
    bool stopped, disturbed, lied;
    bool misreported; /* somebody outside said of a living one that it is gone */
    bool calm; /* healed for good */
    cop_time calm_at;
    bool settled; /* and everybody must know everything */

    uint64_t agreements, deaths;   /* that somebody returned from; crashes */
    cop_time agree_half, agree_ns; /* when half of them had ended; each since then */

    uint64_t outputs, complete; /* of a stream, at its front-end */
    /* The last death, and the first output after it and after all that were not complete. */
    cop_time died, healed;

    struct cop__newcomer **newcomers;
    uint32_t newcomer_count, newcomer_capacity;

    struct cop__ask ask;
    cop_time told;           /* when a service was last told to run */
    struct cop__work *works; /* requests that services are working on */
    uint32_t work_count, work_capacity;

    struct cop__net *net;
    const struct cop_sim_checker *checkers[COP__SIM_CHECKERS];
    void *states[COP__SIM_CHECKERS];
    uint32_t checker_count;
    bool again; /* what happens was judged before, and only memories need to follow */
    char failure[256];
};

/* ---- places of draws ------------------------------------------------------------- */

enum cop__place {
    COP__PLACE_JITTER = 1,
    COP__PLACE_RECORDED,
    COP__PLACE_SHUFFLE,
    COP__PLACE_CUT,
    COP__PLACE_LATE_TICK,
    COP__PLACE_LATE_CLOSED,
    COP__PLACE_LATE_UP,
    COP__PLACE_AGE_OUT,
    COP__PLACE_RECONNECT,
    COP__PLACE_BUGGIFY,
    COP__PLACE_LIVENESS,
    COP__PLACE_CONTACT,
    COP__PLACE_SERVICE,
    COP__PLACE_AGREE,
    COP__PLACE_STREAM,
};

/* ---- sim.c ----------------------------------------------------------------------- */

#define COP__FIRST_INCARNATION UINT64_C(1)
cop_incarnation cop__sim_incarnation(const struct cop_sim *sim, cop_id id);
bool cop__sim_alive(const struct cop_sim *sim, cop_id id);
/* Makes the checkers of the configuration ready; frees them. */
void cop__sim_take_checkers(struct cop_sim *sim);
/* Of a checker's own list: room for one more of `size` bytes; NULL after cop_sim_fail. */
void *cop__sim_grow(struct cop_sim *sim, void **items, uint32_t *count,
                    uint32_t *capacity, size_t size);
void cop__sim_end_checkers(struct cop_sim *sim);
/* Tells the checkers. */
void cop__sim_after_step(struct cop_sim *sim, cop_id id);
void cop__sim_after_submit(struct cop_sim *sim, cop_id id,
                           const struct cop_request *request, int status);
void cop__sim_after_complete(struct cop_sim *sim, cop_id id,
                             const struct cop_effect *effect);
/* A new event of this kind for `dst`; NULL after cop_sim_fail. */
struct cop__sim_event *cop__sim_event(struct cop_sim *sim, uint8_t kind, cop_id src,
                                      cop_id dst);
void cop__sim_push(struct cop_sim *sim, struct cop__sim_event *event, cop_time time);
/* Gives back an event that nobody will see, with its payload. */
void cop__sim_drop(struct cop_sim *sim, struct cop__sim_event *event);
/* Brings a rank to life: a new state machine and its first TICK. */
int cop__sim_bear(struct cop_sim *sim, cop_id id);
/* The same for one who has an invitation. */
int cop__sim_bear_joiner(struct cop_sim *sim, cop_id id, struct cop_view *view,
                         const struct cop__newcomer *newcomer);
void cop__sim_after_deliver(struct cop_sim *sim, cop_id id,
                            const struct cop_effect *effect);
void cop__sim_after_view(struct cop_sim *sim, cop_id id, struct cop_view *view);
void cop__sim_after_stream(struct cop_sim *sim, cop_id id,
                           const struct cop_effect *effect);
void cop__sim_after_upcall(struct cop_sim *sim, cop_id id,
                           const struct cop_upcall *upcall);
/* Submits the request of that action at its node, now. */
void cop__faults_submit(struct cop_sim *sim, uint32_t index);
int cop__sim_keep_action(struct cop_sim *sim, const struct cop_sim_action *action);

/* ---- joining.c ------------------------------------------------------------------- */

/* Tokens of invitations: above all that a script may use. */
#define COP__INVITE_TOKEN (UINT64_C(1) << 63)
/* The same of drains. */
#define COP__DRAIN_TOKEN (UINT64_C(1) << 61)
#define COP__GO_ON_TOKEN (UINT64_C(3) << 61)
/* `id` NONE: somebody new; `called` 0: by a name that nobody had, or by that of the id. */
void cop__joining_begin(struct cop_sim *sim, cop_id id, uint32_t called, bool spare,
                        cop_time delay);
void cop__joining_try(struct cop_sim *sim, uint32_t index, uint64_t tries);
void cop__joining_complete(struct cop_sim *sim, const struct cop_effect *effect);
void cop__joining_fini(struct cop_sim *sim);
bool cop__sim_has_views(const struct cop_sim *sim);
/* Whether its actors are real nodes, perhaps with something around them. */
bool cop__sim_has_nodes(const struct cop_sim *sim);
/* Makes sure that a TICK comes at the node's deadline. */
void cop__sim_arm(struct cop_sim *sim, cop_id id);
/* Makes the node look into its inbox at `time`. */
void cop__sim_wake(struct cop_sim *sim, cop_id id, cop_time time);

/* ---- service.c ------------------------------------------------------------------- */

/* What a service says to an upcall, and when. */
struct cop__answer {
    enum cop_request_kind kind;
    uint64_t handle;
    int status;
    uint64_t value;
    uint64_t offset; /* GIVE */
    uint32_t length;
    bool silent; /* REPLY */
    cop_time delay_ns;
};
#define COP__ANSWERS_MAX 2u
const struct cop_service *cop__sim_services(const struct cop_sim *sim, uint32_t *count);
/* The service that every node has by default. */
uint32_t cop__service_answers(struct cop_sim *sim, cop_id id,
                              const struct cop_upcall *upcall,
                              struct cop__answer out[COP__ANSWERS_MAX]);
void cop__service_request(struct cop_sim *sim, cop_id id,
                          const struct cop__answer *answer);
/* An UPCALL effect: the checkers look on, the service answers. */
void cop__service_upcall(struct cop_sim *sim, cop_id id,
                         const struct cop_effect *effect);
/* The request of an action on collectives, or of an answer, in sim->ask. */
const struct cop_request *cop__service_prepare(struct cop_sim *sim,
                                               const struct cop_sim_action *action);
const struct cop_request *cop__service_decode(struct cop_sim *sim,
                                              const struct cop_buf *payload);
void cop__service_fini(struct cop_sim *sim);
/* What the default service is asked to do: in the payload of its requests. */
struct cop__job {
    uint64_t token;
    cop_id root;
    uint32_t mischief;
    bool heal;
};
bool cop__service_job(const uint8_t *bytes, uint32_t length, struct cop__job *out);
/* Whether a member does this wrong in this request. */
bool cop__service_errs(const struct cop_sim *sim, const struct cop__job *job, cop_id id,
                       enum cop_sim_mischief how);
/* What simulated bulk consists of. */
uint8_t cop__bulk_byte(cop_id root, uint64_t token, uint64_t offset);
/* ---- check_bulk.c ---------------------------------------------------------------- */
const struct cop_sim_checker *cop__bulk_checker(void);
bool cop__sim_is_collective(enum cop_sim_action_kind kind);
/* Whether a token is that of a collective that `id` was told to start. */
bool cop__coll_token(const struct cop_sim *sim, cop_id id, uint64_t token);
/* ---- agree_app.c ----------------------------------------------------------------- */

/* Tokens of agreements: above all that a script may use, below those of invitations. */
#define COP__AGREE_TOKEN (UINT64_C(1) << 60)
/* Instead of the number of an agreement: the group was given back. */
#define COP__AGREE_FREED UINT64_C(0xffffff)
#define COP__AGREE_GROUPS 8u
/* Members that have their own four bits in a word of what is agreed on. */
#define COP__AGREE_PER_WORD 16u
#define COP__AGREE_FOREVER (UINT64_C(100000) * COP_SEC)
uint64_t cop__agree_token(uint64_t group, uint64_t number);
/* The place of an id in a list that is sorted by id, in whichever life; or COP_RANK_NONE. */
uint32_t cop__agree_rank(const struct cop_life *members, uint32_t count, cop_id id);
const struct cop_sim_checker *cop__agree_app(void);

/* ---- stream_app.c ---------------------------------------------------------------- */

#define COP__STREAM_TOKEN (UINT64_C(1) << 59)
#define COP__STREAM_NUMBER UINT64_C(1)
/* What a back-end gives in a wave: 8 bytes. */
/* Numbers are 1 and up: that of the line, and of the others beside it. */
uint64_t cop__stream_value(uint64_t number, cop_id id, cop_incarnation life,
                           uint64_t wave);

/* ---- carry.c --------------------------------------------------------------------- */

void cop__sim_carry(struct cop_sim *sim, cop_id id);

/* ---- peers.c --------------------------------------------------------------------- */

/* NULL if there is none. A pointer holds until the next add to the same table. */
struct cop__peer *cop__peers_find(const struct cop__peers *peers, cop_id id);
/* Finds or adds; NULL if there is no memory. */
struct cop__peer *cop__peers_add(struct cop__peers *peers, cop_id id);
/* All ids in ascending order; to be freed; NULL if there are none or no memory. */
cop_id *cop__peers_sorted(const struct cop__peers *peers, uint32_t *count);
void cop__peers_fini(struct cop__peers *peers);

/* ---- links.c --------------------------------------------------------------------- */

/* Sends a frame event (src, dst, frame_kind, word, view and payload are set). */
void cop__links_send(struct cop_sim *sim, struct cop__sim_event *event);
void cop__links_connect(struct cop_sim *sim, cop_id from, cop_id to);
void cop__links_close(struct cop_sim *sim, cop_id from, cop_id to);
/* True if an event that is due now may reach its node; else it was taken care of. */
bool cop__links_admit(struct cop_sim *sim, struct cop__sim_event *event);
void cop__links_crash(struct cop_sim *sim, cop_id id);
void cop__links_break(struct cop_sim *sim, cop_id a, cop_id b, enum cop_down why);
void cop__links_reconnect(struct cop_sim *sim, cop_id a, cop_id b);
void cop__links_silent(struct cop_sim *sim, const struct cop__sim_event *event);
/* Tells `dst` that `src` is down, not over the network. */
void cop__links_tell_down(struct cop_sim *sim, cop_id src, cop_id dst,
                          enum cop_down why, cop_time delay);
/* The way of held things may be free again. */
void cop__links_retry(struct cop_sim *sim);
struct cop__side *cop__links_side(struct cop_sim *sim, cop_id src, cop_id dst,
                                  bool make);
void cop__links_fini(struct cop_sim *sim);

/* ---- faults.c -------------------------------------------------------------------- */

/* Does the action of that index in sim->actions. */
void cop__faults_apply(struct cop_sim *sim, uint32_t index);
void cop__faults_crash(struct cop_sim *sim, cop_id id);
/* Whether a rule says that the node dies at this boundary. */
bool cop__faults_due(const struct cop_sim *sim, cop_id id, enum cop_sim_when when,
                     uint64_t count);
/* Whether nobody is paused or behind a partition: only then is quiet the end. */
bool cop__faults_over(const struct cop_sim *sim);
/* Whether a partition keeps what src sends from dst. */
bool cop__faults_blocked(const struct cop_sim *sim, cop_id src, cop_id dst);
/* Whether no connection can be made between the two. */
bool cop__faults_parted(const struct cop_sim *sim, cop_id a, cop_id b);
void cop__faults_cutoff(struct cop_sim *sim, uint64_t number);
const struct cop__partition *cop__faults_partition(const struct cop_sim *sim,
                                                   uint64_t number);

/* ---- network.c ------------------------------------------------------------------- */

int cop__net_create(const struct cop_sim *sim, struct cop__net **out);
void cop__net_destroy(struct cop__net *net);
/* When something of `bytes` that leaves src at `depart` is at dst. */
cop_time cop__net_arrival(struct cop_sim *sim, cop_id src, cop_id dst, uint32_t bytes,
                          cop_time depart);

/* ---- trace.c --------------------------------------------------------------------- */

void cop__trace_event(struct cop_sim *sim, const struct cop__sim_event *event);
void cop__trace_effects(struct cop_sim *sim, cop_id id);
void cop__trace_complete(struct cop_sim *sim, cop_id id,
                         const struct cop_effect *effect);
void cop__trace_stream(struct cop_sim *sim, cop_id id, const struct cop_effect *effect);
void cop__trace_action(struct cop_sim *sim, const struct cop_sim_action *action);
/* A line that begins with the time. */
void cop__trace_line(struct cop_sim *sim, const char *format, ...);
/* "41us", "1.5ms", "2s": exact, in the largest unit that fits. */
void cop__print_time(cop_time time, char out[32]);
/* "at 12us crash 3": one line of a script. */
void cop__print_action(const struct cop_sim_action *action, char *out, size_t size);
/* "recv ask from 3: initiator=0 ..." */
void cop__print_frame(const char *verb, const char *whom, uint16_t kind,
                      const struct cop_buf *payload, char *out, size_t size);

const char *cop__down_name(uint64_t why);

#endif
