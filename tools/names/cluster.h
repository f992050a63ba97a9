/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_NAMES_CLUSTER_H
#define COP_TOOLS_NAMES_CLUSTER_H

#include "names/nodeset.h"
#include "net/tcp/driver.h"

#include <coppice/tree.h>

/*
 * The file that describes a cluster: who it is, and where its members listen.
 *
 *   cluster 00112233445566778899aabbccddeeff
 *   instance 1                      (which start of it; 1 if left out)
 *   first 1                         (incarnation in which all begin; 1 if left out)
 *   shape radix:4                   (radix:4 if left out)
 *   quorum majority                 (majority if left out; none, fixed, has:NAMES)
 *   detector connection             (this if left out; ring:100ms,witnesses:2)
 *   guard 0                         (0 if left out: any number of removals a minute)
 *   directory /run/x                (for relative paths; that of the file if left out)
 *   0 n0 unix:m0.sock               (a path is relative to the file's directory)
 *   1 n1 tcp:127.0.0.1:7001
 *   2 n2 tcp:[::1]:7002
 *
 * Members have the ids 0, 1, 2, ... in this order. '#' begins a comment line.
 *
 * The file is mapped and not copied: the pages are shared by all agents of a machine,
 * and an address is read from the text when a connection needs it.
 */
#define CLUSTER_MEMBERS_MAX 65536u
#define CLUSTER_FILE "members"
#define CLUSTER_GUARD_MAX 1000000u

/* Somebody who joined later. Not in the file: who has a list of them adds it. */
struct cluster_extra {
    cop_id id; /* COP_ID_NONE while it has none */
    char name[NODESET_NAME_LENGTH + 1];
    char address[160];
};

struct cluster {
    uint8_t id[16];
    uint64_t instance;
    cop_incarnation first;
    struct cop_shape shape;
    char shape_text[64];
    char quorum_text[128];
    char detector_text[64];
    struct cop_detect detect;
    uint32_t guard;
    enum cop_quorum quorum;
    struct cop_ranks quorum_ids; /* has:NAMES */
    uint32_t n;
    /* Those that joined: they are addressed as n, n + 1, ..., which need not be their ids. */
    struct cluster_extra *extras; /* owned */
    uint32_t extra_count;

    char directory[256]; /* for relative paths */
    char *text;          /* mapped */
    size_t size;
    bool is_copy;    /* of a text, not mapped */
    uint32_t *index; /* offset of every CLUSTER_STRIDE-th member's line */
};

/*
 * Maps and checks the file. 0, or COP_EINVAL with one sentence ("FILE:LINE: ..."). The
 * lines of members in a `trusted` file, one that a keeper wrote, are counted and not
 * read: n agents that each check n lines would spend more on that than on everything
 * else.
 */
int cluster_open(const char *path, bool trusted, struct cluster *out, char *message,
                 size_t size);
/* The same for a text that somebody sent; `origin` stands in messages for the file. */
int cluster_read(const char *origin, const char *text, size_t length,
                 struct cluster *out, char *message, size_t size);
void cluster_close(struct cluster *cluster);

/*
 * The whole of it as a text that cluster_read understands anywhere on this machine, or,
 * with TCP, anywhere. To be freed; NULL: no memory.
 */
char *cluster_describe(const struct cluster *cluster, size_t *length);

/* Reads "majority", "none", "fixed" or "has:NAMES"; *names are behind the colon. */
/* "connection", "ring:PERIOD" or "ring:PERIOD,witnesses:K". */
int cluster_parse_detector(const char *text, struct cop_detect *out);
int cluster_parse_quorum(const char *text, enum cop_quorum *out, const char **names);

/* How many there are, with those who joined. */
static inline uint32_t cluster_count(const struct cluster *cluster)
{
    return cluster->n + cluster->extra_count;
}

/* The id in the view of whoever is at a place; COP_ID_NONE: it has none yet. */
static inline cop_id cluster_id(const struct cluster *cluster, cop_id place)
{
    return place < cluster->n ? place : cluster->extras[place - cluster->n].id;
}

/* The name of a member that exists, by its place. */
void cluster_name(const struct cluster *cluster, cop_id id,
                  char out[NODESET_NAME_LENGTH + 1]);
/* The text of its address, e.g. "tcp:127.0.0.1:7001". */
void cluster_address_text(const struct cluster *cluster, cop_id id, char *out,
                          size_t size);
int cluster_address(const struct cluster *cluster, cop_id id, struct cop__address *out);

/*
 * Reads "unix:PATH" or "tcp:HOST:PORT"; HOST is a number. COP_EINVAL with a sentence.
 */
int cluster_parse_address(const char *text, const char *directory,
                          struct cop__address *out, char *message, size_t size);
/* The same address for processes in another directory; `out` is as long as need be. */
void cluster_absolute(const char *text, char *out, size_t size);
/* The same for an address to listen on: port 0 is any that is free. */
int cluster_parse_listen(const char *text, struct cop__address *out, char *message,
                         size_t size);

/*
 * The places of members by name, id or node set, sorted, without repetition. An array to
 * be freed. 0, or COP_EINVAL with a sentence that names what is wrong, or COP_ENOMEM.
 */
int cluster_select(const struct cluster *cluster, char *const *texts, int count,
                   struct cop_ranks *out, char *message, size_t size);

/* Folded names of sorted ids, to be freed; NULL: no memory. */
char *cluster_fold(const struct cluster *cluster, const cop_id *ids, uint32_t count);

#endif
