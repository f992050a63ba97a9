/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_SIM_H
#define COPPICE_SIM_H

#include <coppice/coll.h>
#include <coppice/node.h>
#include <coppice/stats.h>
#include <coppice/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The simulator: N unmodified nodes in one process, on virtual time, from one 64-bit
 * seed. The same seed gives the same trace, byte for byte, on every machine and
 * compiler, so a failing seed is a bug report.
 *
 * Three ways to use it:
 *   - by hand: cop_sim_create, cop_sim_do / cop_sim_at, cop_sim_run;
 *   - by script: text with one action a line (cop_sim_script_parse,
 *     cop_sim_script_run);
 *   - by swarm: every seed becomes a script of its own (cop_sim_swarm_script), and one
 *     that fails is cut down to a short one (cop_sim_shrink).
 *
 * What the simulator keeps of the driver's promises (coppice/node.h), in its own
 * words:
 *   1. A connection is made by the first CONNECT or SEND of either end. Both ends hear
 *      PEER_UP, each before the first frame of the other. With COP_SIM_QUIET_START the
 *      ones made by the first TICKs are there without PEER_UP.
 *   2. Frames of one sender to one receiver arrive in order, whatever the network
 *      does.
 *   3. When a node crashes, each peer connected to it gets what had left it (all, or
 *      with COP_SIM_CUT a prefix), then PEER_DOWN(CLOSED). CONNECT and SEND to a dead
 *      node bring PEER_DOWN(REFUSED).
 *   4. A broken connection loses nothing: both ends hear PEER_DOWN(CLOSED), the
 *      drivers connect again, both hear PEER_UP, then what was under way arrives.
 *   5. A partition holds frames back until it heals. After COP_SIM_SILENT_NS of it the
 *      ends of a connection, and who tries to make one, hear PEER_DOWN(SILENT).
 *
 * A simulation is used by one thread. Different simulations are independent.
 */
struct cop_sim;

/* How long a partitioned connection, or an attempt to connect, takes to be called
 * silent. */
#define COP_SIM_SILENT_NS (2 * COP_SEC)

/* ---- the network ----------------------------------------------------------------- */

enum cop_sim_net_kind {
    COP_SIM_NET_CONSTANT, /* latency */
    COP_SIM_NET_LOGGP,    /* latency, overhead, gap, byte */
    COP_SIM_NET_TORUS,    /* latency + hops * hop on a 3-D torus */
    COP_SIM_NET_SWITCH,   /* latency, and a queue at every output port and uplink */
    COP_SIM_NET_RECORDED, /* one way times drawn from a table */
};

/* Times in integer nanoseconds; what a model does not name above is ignored by it. */
struct cop_sim_net {
    enum cop_sim_net_kind kind;
    cop_time latency_ns;
    cop_time overhead_ns; /* o: the sender is busy for this long with each frame */
    cop_time gap_ns;      /* g: least distance of two sends of one node */
    cop_time byte_ps;     /* G: picoseconds for each byte (LogGP, switch) */
    cop_time hop_ns;      /* TORUS: for each hop */
    uint32_t dims[3];     /* TORUS: all 0 for a near cube */
    bool shuffle;   /* TORUS: ranks placed by a permutation from the seed, not xyz */
    uint32_t ports; /* SWITCH: nodes at each; 0: all at one */
    cop_time service_ns;   /* SWITCH: time of a frame in an output port */
    const uint32_t *table; /* RECORDED: one way times in ns, borrowed */
    uint32_t table_count;
    cop_time jitter_ns;  /* every frame takes 0 .. jitter longer, by the seed */
    cop_time compute_ns; /* a node is busy for this long with each event */
};

/* ---- whom it runs ---------------------------------------------------------------- */

/*
 * What stands behind a rank. The default is the real node; a table of one's own runs
 * another state machine with the same events and effects. All functions as in
 * coppice/node.h. `open`, `check`, `digest` and `bytes` may be NULL.
 */
struct cop_sim_actor {
    size_t size; /* of this table */
    int (*create)(void *context, const struct cop_config *config, void **out);
    void (*destroy)(void *node);
    int (*step)(void *node, const struct cop_event *event, struct cop_effects *effects);
    cop_time (*deadline)(const void *node);
    uint32_t (*open)(const void *node);     /* cop_node_sweeps */
    const char *(*check)(const void *node); /* cop_node_check */
    uint64_t (*digest)(const void *node);   /* cop_node_digest */
    size_t (*bytes)(const void *node);      /* cop_node_bytes */
    void *context;
};

/* The table of the real node. */
const struct cop_sim_actor *cop_sim_actor_node(void);

/* ---- checkers -------------------------------------------------------------------- */

struct cop_sim_action;

/*
 * Looks on while a simulation runs, and calls cop_sim_fail when something must not be.
 * Any function may be NULL. `state` is what init returned; NULL from it means that there is
 * no memory, and ends the run with that. A checker without init gets NULL as state.
 */
struct cop_sim_checker {
    const char *name;
    /* False: nothing else is called in this run. */
    bool (*is_concerned)(const struct cop_sim *sim);
    void *(*init)(struct cop_sim *sim);
    /* An action of the script, just before it is done. */
    void (*on_action)(void *state, struct cop_sim *sim,
                      const struct cop_sim_action *action);
    /* A request was given to a node, which said `status`. */
    void (*on_submit)(void *state, struct cop_sim *sim, cop_id node,
                      const struct cop_request *request, int status);
    void (*after_step)(void *state, struct cop_sim *sim, cop_id node);
    void (*on_complete)(void *state, struct cop_sim *sim, cop_id node, uint64_t token,
                        int status, const struct cop_buf *result);
    /* Bytes that another member sent were delivered. */
    void (*on_deliver)(void *state, struct cop_sim *sim, cop_id node, cop_id from,
                       cop_incarnation incarnation, const struct cop_buf *bytes);
    /* A service is told to do something. */
    void (*on_upcall)(void *state, struct cop_sim *sim, cop_id node,
                      const struct cop_upcall *upcall);
    /* Something of the stream `number` for the application. */
    void (*on_stream)(void *state, struct cop_sim *sim, cop_id node, uint64_t number,
                      const struct cop_stream_event *event);
    /* A view was installed. */
    void (*on_view)(void *state, struct cop_sim *sim, cop_id node,
                    struct cop_view *view);
    /* Nothing is under way any more, and no timer is running. */
    void (*at_quiescence)(void *state, struct cop_sim *sim);
    void (*fini)(void *state);
    /* For the explorer: a number that differs where what it remembers does. */
    uint64_t (*digest)(const void *state);
};

/* The invariants of the node after every step (above 16 nodes after some of them), and
 * nothing left at quiescence. */
const struct cop_sim_checker *cop_sim_checker_node(void);
/* What a probe promises: completion, partition, no double count, accuracy, liveness. */
const struct cop_sim_checker *cop_sim_checker_probe(void);

/* What views promise: one for each ballot, in one order, without those who are gone and
 * with all who live; see cop_sim_config.quorum. */
const struct cop_sim_checker *cop_sim_checker_member(void);
/* What messages between members promise: once, in order, in the view of their sending. */
const struct cop_sim_checker *cop_sim_checker_letter(void);
/* What draining promises: no removal, no root that is drained while others are not, an end. */
const struct cop_sim_checker *cop_sim_checker_drain(void);
/* That no root removes more than the guard allows, where there is one. */
const struct cop_sim_checker *cop_sim_checker_guard(void);

/* What collectives promise: every living member runs a request once, the answer says who did
 * and why the others did not, and nothing is left behind. */
const struct cop_sim_checker *cop_sim_checker_coll(void);
/* A1 to A5 of agreements. */
const struct cop_sim_checker *cop_sim_checker_agree(void);
/* S1 to S3 of streams. */
const struct cop_sim_checker *cop_sim_checker_stream(void);
/* No checker: the front-end and the back-ends of cop_sim_config.stream. */
const struct cop_sim_checker *cop_sim_stream_app(void);

/* ---- actions --------------------------------------------------------------------- */

enum cop_sim_action_kind {
    COP_SIM_PROBE,     /* a submits a probe: request */
    COP_SIM_ABORT,     /* a aborts request.target */
    COP_SIM_CRASH,     /* a .. b crash; b = COP_ID_NONE: only a */
    COP_SIM_RESTART,   /* a comes back with its next incarnation, if it is dead */
    COP_SIM_PAUSE,     /* a does nothing; what comes waits */
    COP_SIM_RESUME,    /* a goes on */
    COP_SIM_SLOW,      /* a is busy for amount_ns more with each event; 0 ends it */
    COP_SIM_SLOW_LINK, /* frames from a to b take amount_ns longer; 0 ends it */
    COP_SIM_PARTITION, /* left and right do not hear each other (one_way: right hears
                             nothing of left) */
    COP_SIM_HEAL,      /* all partitions end */
    COP_SIM_BREAK,     /* the connection of a and b breaks; both live */
    COP_SIM_JUMP,      /* the clock of a jumps forward by amount_ns */
    COP_SIM_LIE,       /* a is told that b refused, though b may live */
    /* Where views change: */
    COP_SIM_JOIN,    /* somebody new comes, as a spare if `spare` */
    COP_SIM_LEAVE,   /* a says goodbye */
    COP_SIM_REPORT,  /* a is told by somebody outside that b is dead */
    COP_SIM_SEND,    /* a sends request.token to b */
    COP_SIM_INQUIRE, /* a asks b how it is: request */
    COP_SIM_DRAIN,   /* a is asked to drain b, or not any more: request */
    COP_SIM_GO_ON,   /* a is told to go on without a quorum */
    /* Collectives: request and coll. */
    COP_SIM_GROUP,     /* a makes a group of `left` */
    COP_SIM_GROUP_END, /* a ends a group */
    COP_SIM_BCAST,     /* a broadcasts; services are as good as `mischief` lets them */
    COP_SIM_SERVICE,   /* the service of a is registered (anew), with coll.version */
    COP_SIM_UNSERVICE, /* it goes, with all that it had begun */
    COP_SIM_AGREE,     /* a submits request: what cop_sim_agree makes; not in scripts */
    COP_SIM_STREAM,    /* the same of cop_sim_stream */
};

/*
 * What the nodes of a simulation do all the while, where views change: they agree, again and
 * again, in a group of all members of the start, and in more of the members of some later
 * views. Each contributes a number of its own, so that the result shows who is in it.
 */
struct cop_sim_agree {
    uint32_t count; /* agreements in each group; 0: nothing of it */
    enum cop_algorithm algorithm;
    uint32_t window;
    uint32_t groups; /* more groups, of later views */
    cop_time gap_ns; /* at most, between one and the next call of a node, by the seed */
    cop_time timeout_ns; /* of each call; 0: so long that it never comes */
    bool keep_tree, promote;
    bool free;  /* each gives the group back when it has called them all */
    bool plain; /* everyone contributes the word 1, and nobody looks who is in it */
};

#define COP_SIM_FILTER_NAME 32
#define COP_SIM_FILTER_PARAMS 64
/*
 * The same for a stream: a front-end opens it at the root, and goes where the root goes; every
 * back-end gives `waves` packets, from which who looks on can tell what must come out.
 */
struct cop_sim_stream {
    uint32_t waves;                     /* 0: nothing of it */
    char filter[COP_SIM_FILTER_NAME];   /* of coppice/filter.h; packets are u64 */
    char params[COP_SIM_FILTER_PARAMS]; /* of the filter */
    uint32_t window;
    enum cop_stream_sync sync;
    cop_time timeout_ns; /* SYNC_TIMEOUT */
    uint32_t flags;      /* enum cop_stream_flag */
    cop_time gap_ns;     /* at most, between one and the next packet, by the seed */
    cop_time lag_ns;     /* at most, until the front-end takes an output */
    uint32_t downs;      /* packets of the front-end */
    /* A filter of the library for these, of which a checker knows what it must give: scatter, select
     * or path, of bytes; "": none. And its parameters. */
    char down[COP_SIM_FILTER_NAME], down_params[COP_SIM_FILTER_PARAMS];
    /* Streams beside it, the same, opened later. Every second is in a network of its own, and of
     * each two one is closed when it is through. */
    uint32_t others;
    bool closes; /* all are */
    bool mortal; /* the front-end dies with the process at which it opened */
    /* The front-end is at this member, + 1, and knows what that knows and what roots answer; when
     * it dies another one takes over, at any other member. 0: it is nowhere, and knows all. */
    uint32_t front;
};

/* When an action is done. The latter two are for CRASH only: at message boundaries. */
enum cop_sim_when {
    COP_SIM_AT,         /* at a time */
    COP_SIM_AFTER_SEND, /* once a has sent its count-th frame; the rest of the step is lost */
    COP_SIM_BEFORE_RECV, /* when its count-th frame arrives, before it is handled */
};

#define COP_SIM_RANGES 8
struct cop_sim_range {
    cop_id first, last;
};
struct cop_sim_set {
    struct cop_sim_range ranges[COP_SIM_RANGES];
    uint32_t count;
};

/* What services do wrong, each of them at about one member in four. */
enum cop_sim_mischief {
    COP_SIM_NEVER_REPLIES = 1,
    COP_SIM_REPLIES_TWICE = 2,
    COP_SIM_REFUSES = 4,
    COP_SIM_REPLIES_ERROR = 8,
    COP_SIM_UNREGISTERS = 16, /* instead of replying */
    COP_SIM_REPLIES_LATE = 32,
    COP_SIM_SINK_FAILS = 64,    /* it cannot put away what comes of the bulk */
    COP_SIM_SINK_STOPS = 128,   /* it does not say that it has */
    COP_SIM_SOURCE_FAILS = 256, /* at the root: bytes cannot be had */
    /* Of an out-of-band group it names other members, or none, or says nothing. */
    COP_SIM_RESOLVES_WRONG = 512,
};
#define COP_SIM_MISCHIEF_ALL 1023u
/* Beside them, and the contrary: services answer at once, whatever they are asked. */
#define COP_SIM_PROMPT 0x80000000u
/* Those that need no bulk. */
#define COP_SIM_MISCHIEF_PLAIN 63u

struct cop_sim_action {
    enum cop_sim_action_kind kind;
    enum cop_sim_when when;
    cop_time at;
    uint64_t count;
    cop_id a, b;
    cop_time amount_ns;
    bool one_way;
    bool spare; /* JOIN */
    struct cop_sim_set left, right;
    struct cop_request request;
    struct cop_coll coll; /* GROUP, GROUP_END, BCAST, SERVICE: without pointers */
    uint32_t mischief;    /* BCAST: enum cop_sim_mischief, COP_SIM_PROMPT */
};

/* ---- a simulation ---------------------------------------------------------------- */

enum cop_sim_flag {
    COP_SIM_CODEC = 1,       /* headers go through real bytes, payloads are copied */
    COP_SIM_CHECK = 2,       /* the checkers given are called */
    COP_SIM_QUIET_START = 4, /* see 1. above; for large n */
    COP_SIM_CUT = 8,      /* a crash loses the end of what was under way, by the seed */
    COP_SIM_BUGGIFY = 16, /* rare but legal: late ticks, late news of deaths, ... */
};

struct cop_sim_config {
    uint32_t nodes; /* places; where views change, some may be for those who join */
    uint32_t start; /* members of the static start; 0: all */
    enum cop_quorum quorum;
    struct cop_sim_set named; /* HAS: all of these */
    struct cop_detect detect;
    uint32_t guard;             /* as in struct cop_config */
    struct cop_sim_set drained; /* from the start */
    struct cop_shape shape;     /* of the view; its table stays the caller's */
    struct cop_sim_agree agree;
    struct cop_sim_stream stream;
    uint64_t seed;
    struct cop_sim_net net;
    uint32_t flags;                                /* enum cop_sim_flag */
    const struct cop_sim_actor *actor;             /* NULL: the real node */
    const struct cop_sim_checker *const *checkers; /* ends with NULL; may be NULL */
    /* Services that every node has; NULL: one, number 1, which adds up fingerprints. */
    const struct cop_service *services;
    uint32_t service_count;
    /* A service is told to do something: answer with cop_sim_answer. With services of one's
     * own only. */
    void (*upcall)(void *context, struct cop_sim *sim, cop_id node,
                   const struct cop_upcall *upcall);
    /* A request ended. May call cop_sim_do. May be NULL. `result` is borrowed. */
    void (*complete)(void *context, struct cop_sim *sim, cop_id node, uint64_t token,
                     int status, struct cop_buf *result);
    /* A view was installed. May be NULL. */
    void (*viewed)(void *context, struct cop_sim *sim, cop_id node,
                   struct cop_view *view);
    /* One line of the trace, without line end. NULL: no text is made. */
    void (*trace)(void *context, const char *line);
    /*
     * Called by cop_sim_script_run when the nodes are there and nothing has happened
     * yet, and when nothing more will. May be NULL.
     */
    void (*begin)(void *context, struct cop_sim *sim);
    void (*end)(void *context, struct cop_sim *sim);
    void *context;
};

/* COP_EINVAL if the nodes or the shape are not possible; COP_ENOMEM. */
int cop_sim_create(const struct cop_sim_config *config, struct cop_sim **out);
/* NULL is ignored. */
void cop_sim_destroy(struct cop_sim *sim);

/* Does an action now (its time is not looked at). COP_EINVAL if a rank is not there. */
int cop_sim_do(struct cop_sim *sim, const struct cop_sim_action *action);
/* Does it when it says. COP_EINVAL: its time is over, or a rank is not there;
 * COP_ENOMEM. */
int cop_sim_at(struct cop_sim *sim, const struct cop_sim_action *action);

/*
 * What a service says: CHECKED, REPLY, RESOLVED (targets without tags) or UNSERVICE, given to
 * the node after `delay_ns`, if it lives the same life then. Copied. COP_ENOMEM.
 */
int cop_sim_answer(struct cop_sim *sim, cop_id node, const struct cop_request *request,
                   cop_time delay_ns);

/* Runs one event. False if there is none, or after cop_sim_fail. */
bool cop_sim_step(struct cop_sim *sim);
/*
 * Runs until nothing is due up to and including `until`, or cop_sim_fail or
 * cop_sim_stop was called. Time stands at `until` afterwards, or at the last event if
 * it is NEVER.
 */
void cop_sim_run(struct cop_sim *sim, cop_time until);
/* Makes cop_sim_run return after the event in hand; for use in callbacks. */
void cop_sim_stop(struct cop_sim *sim);
/* True if nothing is due any more. */
bool cop_sim_is_quiet(const struct cop_sim *sim);
/* Calls at_quiescence of every checker. */
void cop_sim_quiescence(struct cop_sim *sim);
/* Ends all that disturbs: heals, resumes, no more slowness, no more rare behaviour. */
void cop_sim_heal(struct cop_sim *sim);

/* Says that everybody has had time to hear of everything: from now on, answers must be
 * exact. Checkers ask for it with cop_sim_is_settled. */
void cop_sim_settle(struct cop_sim *sim);
/* Whether that was said. */
bool cop_sim_is_settled(const struct cop_sim *sim);

/* Records a violation, in the words of a checker, and ends the run. The first one
 * stays. */
void cop_sim_fail(struct cop_sim *sim, const char *checker, const char *format, ...);
/* The violation, or NULL. */
const char *cop_sim_failure(const struct cop_sim *sim);

/*
 * True in about one of `rarity` cases, by the seed, if COP_SIM_BUGGIFY is set: a place
 * in a driver, checker or service asks for rare but legal behaviour. `place` tells
 * places apart.
 */
bool cop_sim_buggify(struct cop_sim *sim, uint32_t place, uint32_t rarity);
/* A number in [0, bound) from the seed, `place` and two numbers, and nothing else. */
uint64_t cop_sim_draw(const struct cop_sim *sim, uint32_t place, uint64_t a, uint64_t b,
                      uint64_t bound);

/* ---- looking in ------------------------------------------------------------------ */

/* The virtual time. */
cop_time cop_sim_now(const struct cop_sim *sim);
/* How many there are, dead or alive. */
uint32_t cop_sim_nodes(const struct cop_sim *sim);
/* Whether a rank has a life just now. */
bool cop_sim_is_alive(const struct cop_sim *sim, cop_id id);
/* When the present life began. */
cop_time cop_sim_born_at(const struct cop_sim *sim, cop_id id);
/* When the last one ended; COP_TIME_NEVER: it never crashed. */
cop_time cop_sim_died_at(const struct cop_sim *sim, cop_id id);
/* The state machine at a rank, or NULL while it is dead. */
const void *cop_sim_node(const struct cop_sim *sim, cop_id id);
/* What runs at every rank. */
const struct cop_sim_actor *cop_sim_actor(const struct cop_sim *sim);
/* Whether a pause, slowness, partition or clock jump was ever done. */
bool cop_sim_was_disturbed(const struct cop_sim *sim);
/* Whether a lie was. */
bool cop_sim_was_lied_to(const struct cop_sim *sim);
/* Frames that a rank has sent, over all its lives. */
uint64_t cop_sim_sends(const struct cop_sim *sim, cop_id id);
/* And has been given. */
uint64_t cop_sim_receives(const struct cop_sim *sim, cop_id id);
/* Events done so far. */
uint64_t cop_sim_events(const struct cop_sim *sim);
/* The digest of all of them. */
uint64_t cop_sim_digest(const struct cop_sim *sim);
/* Counters of all nodes together; borrowed. */
const struct cop_stats *cop_sim_stats(const struct cop_sim *sim);
/* Private memory of all nodes now. */
uint64_t cop_sim_node_bytes(const struct cop_sim *sim);

/* ---- scripts --------------------------------------------------------------------- */

/*
 * One line, one thing; # begins a comment; times are 7, 10us, 5ms, 2s (bare: ns).
 *
 *   nodes 16              shape radix:4         hosts 4 (members a host, for hosts:S)
 *   topology a:0 => a:1 ; (instead of nodes and shape) seed 7  views majority|none (they change)
 *   detect [ring 100ms] [witnesses 2] [gossip 100ms [stealth]] (where views change)
 *   guard 2 (removals a minute)   drained 3,5-6 (from the start)   at T drain A about B [undo]
 *   at T go-on A
 *   agree early [count K] [window W] [gap T] [timeout T] [groups K] [keep-tree]
 *   [promote] [free] [plain] (see struct cop_sim_agree)
 *   stream FILTER [params P] [waves K] [window W] [gap T] [lag T] [downs K] [down FILTER [of P]]
 *   [timeout T] [none] [leaves] [withdraw] [single] [fragile] [others K] [closes] [mortal] [front A] (see struct cop_sim_stream)
 *   start 12 (members at the start; the other nodes are places for who joins)  flags
 *   codec cut buggify quiet net constant 10us | net loggp L o g G_ps | net torus L hop
 *   [XxYxZ] [shuffle] | net switch L service_ns [ports P] [byte G_ps] | net recorded
 *   10us,12us,... each may end in: [jitter J] [compute O] at T probe A [timeout T]
 *   [shape S] [outcome] [token K] at T abort A K        at T crash A[-B]      crash A
 *   after-send J | before-recv J at T restart A        at T pause A          at T
 *   resume A at T slow A D         at T slow A > B D     at T partition LIST | LIST at
 *   T partition LIST > LIST (one way)        at T heal at T break A B        at T jump
 *   A D         at T lie A about B   at T join [spare]   at T leave A   at T report A
 *   about B   at T send A > B token K   at T inquire A about B [timeout T]   liveness
 *   at T group A G now|lazy|oob LIST [shape S] [token K]   at T endgroup A G [token K]
 *   at T bcast A [group G] [token K] [timeout T] [service-time T] [version V] [plain]
 *   [last] [alive] [strict] [mischief M] [prompt] [bulk BYTES CHUNK]
 *   at T service A [version V]   at T unservice A
 *   (at the end: heal all, then
 *   everyone alive probes, and must name exactly the dead) until-complete        (stop
 *   when every probe has completed, not when all is quiet)
 */
struct cop_sim_script {
    struct cop_sim_config config; /* nodes, shape, seed, net, flags */
    struct cop_sim_action *actions;
    uint32_t count, capacity;
    uint32_t per_host; /* HOSTS: members of each host */
    char *topology;    /* TABLE: the text; else NULL */
    uint32_t *table;   /* what config.net.table points to, or NULL */
    bool liveness;
    bool until_complete;
};

/* COP_EINVAL with one sentence and the line number in `message`; COP_ENOMEM. */
int cop_sim_script_parse(const char *text, struct cop_sim_script *out, char *message,
                         size_t size);
/* The text, to be freed by the caller; NULL if there is no memory. */
char *cop_sim_script_print(const struct cop_sim_script *script);
/* A script of its own, to be freed. COP_ENOMEM. */
int cop_sim_script_copy(const struct cop_sim_script *script,
                        struct cop_sim_script *out);
/* Appends an action. COP_ENOMEM. */
int cop_sim_script_add(struct cop_sim_script *script,
                       const struct cop_sim_action *action);
/* Gives the script its shape: "radix:4", "hosts:flat" with `per_host` members each. */
int cop_sim_script_shape(struct cop_sim_script *script, const char *text,
                         uint32_t per_host, char *message, size_t size);
/* Frees what the script holds, and empties it. */
void cop_sim_script_free(struct cop_sim_script *script);

struct cop_sim_report {
    char failure[256]; /* "" if nothing was violated */
    uint64_t trace_digest;
    uint64_t events;
    cop_time virtual_ns;
    cop_time completed_ns; /* when the last probe completed */
    cop_time told_ns;      /* when a service was last told to run something */
    uint32_t submitted, completed;
    uint32_t answered; /* by the last probe that completed */
    uint32_t dead, silent;
    /* Where views change: the latest one, and how it came about. */
    cop_epoch epoch;
    uint32_t members, installed;   /* how many it has, and how many of them have it */
    cop_time installed_ns;         /* when the last of them got it */
    struct cop_change_times times; /* at its root */
    uint64_t node_bytes;           /* private memory of all nodes at the end */
    uint64_t agreements;           /* that somebody returned from */
    uint64_t deaths;               /* crashes */
    cop_time agree_ns;          /* from one to the next, over the second half of them */
    uint64_t outputs, complete; /* that a front-end got, and those with all in them */
    /* From the last death until all outputs were complete again; 0: nobody died, or never. */
    cop_time healed_ns;
    struct cop_stats stats;
};

/*
 * Runs a script. What `script->config` says about actor, checkers, trace and context
 * is used; without checkers, those of this header are when COP_SIM_CHECK is set. 0
 * also when something was violated: see `failure`. COP_EINVAL, COP_ENOMEM: it could
 * not be run.
 */
int cop_sim_script_run(const struct cop_sim_script *script, struct cop_sim_report *out);
/* The same in a process of its own: a node that aborts it is a violation like others.
 * COP_EIO if there is no process to be had. */
int cop_sim_script_try(const struct cop_sim_script *script, struct cop_sim_report *out);

/* ---- swarm ----------------------------------------------------------------------- */

enum cop_sim_swarm_flag {
    COP_SIM_SWARM_LIES = 1,  /* with false suspicions */
    COP_SIM_SWARM_VIEWS = 2, /* views change; nodes come, leave and return */
    COP_SIM_SWARM_GUARD = 4, /* with VIEWS: and a guard, by the seed */
    COP_SIM_SWARM_DRAIN = 8, /* some are drained, from the start or (VIEWS) later */
    COP_SIM_SWARM_COLL = 16, /* collectives instead of probes */
    COP_SIM_SWARM_AGREE =
        32, /* and agree; algorithm + 1, or 0 for any, from bit 8 on */
    COP_SIM_SWARM_STREAM = 64, /* and have a stream */
};
#define COP_SIM_SWARM_ALGORITHM(a) (((uint32_t)(a) + 1) << 8)

/* The script that a seed stands for. */
int cop_sim_swarm_script(uint64_t seed, uint32_t flags, struct cop_sim_script *out);

struct cop_sim_swarm {
    uint64_t first;
    uint64_t count;
    uint32_t jobs;  /* worker processes; 0: none, everything in this one */
    uint32_t flags; /* enum cop_sim_swarm_flag */
    /* Tells how far it is, now and then; false ends it. May be NULL. */
    bool (*progress)(void *context, uint64_t done, uint64_t failed);
    void *context;
};

struct cop_sim_swarm_report {
    uint64_t done, failed;
    uint64_t first_failed; /* the lowest seed that failed, if any */
    uint64_t events;
    uint64_t digest; /* of all seeds, whatever the number of jobs */
    uint64_t agreements, deaths;
};

/* A seed on which a worker dies counts as failed. COP_EIO if there are no workers to be
 * had. */
int cop_sim_swarm_run(const struct cop_sim_swarm *config,
                      struct cop_sim_swarm_report *out);

/*
 * Cuts a failing script down: fewer actions, fewer nodes, a simpler network, as long
 * as it fails. `fails` runs a script and says whether it still does; NULL:
 * cop_sim_script_try gives the same kind of violation. COP_ESTATE if the script does
 * not fail.
 */
int cop_sim_shrink(const struct cop_sim_script *script,
                   bool (*fails)(void *context, const struct cop_sim_script *script),
                   void *context, struct cop_sim_script *out);

/* ---- explorer -------------------------------------------------------------------- */

/*
 * Not random but all: every order of deliveries, every crash point, for a few nodes. A
 * probe is submitted at `root`; connections of the first ticks are there; time stands
 * still but for timers, which fire when nothing else can happen (or any time, by
 * `timers`). Where views change nothing is submitted: what happens are the crashes.
 */
struct cop_sim_explore {
    uint32_t nodes; /* at most COP_SIM_EXPLORE_NODES */
    struct cop_shape shape;
    cop_id root;
    uint32_t crashes; /* at most so many */
    uint32_t lies;
    enum cop_quorum quorum; /* not FIXED: views change, and there is no probe */
    uint32_t agreements;    /* with views: so many of all, each called at any time */
    enum cop_algorithm algorithm;
    bool promote;
    bool free; /* and the group is given back after them */
    bool outcome;
    bool coll; /* a broadcast to all, with HEAL, instead of a probe */
    struct cop_sim_stream stream; /* with views: a stream, if it has waves; at once what
                                     can be given, taken and sent is */
    bool timers;                  /* timers fire at any time */
    bool reduce;                  /* partial-order reduction by sleep sets */
    uint32_t depth_max;           /* 0: no bound */
    uint64_t memory_max;          /* bytes; 0: 4 GiB */
    const struct cop_sim_actor *actor;             /* NULL: the real node */
    const struct cop_sim_checker *const *checkers; /* NULL: those of this header */
    /* Tells how far it is, now and then; false ends it. May be NULL. */
    bool (*progress)(void *context, uint64_t states, uint32_t depth);
    void *context;
};
#define COP_SIM_EXPLORE_NODES 7

struct cop_sim_explored {
    uint64_t states, transitions, terminals;
    uint64_t steps; /* of nodes, with replays */
    uint32_t depth;
    bool exhausted;
    uint64_t memory_bytes;
    char failure[256]; /* "" if nothing was violated */
    char *schedule;    /* the shortest that fails, a line a step; freed by the caller */
};
/* Tries every order. 0 also if something was violated: see `failure`. COP_EINVAL,
 * COP_ENOMEM. */
int cop_sim_explore(const struct cop_sim_explore *config, struct cop_sim_explored *out);

#ifdef __cplusplus
}
#endif

#endif
