/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets as messages of MPI. Receives from anybody are posted ahead. MPI fills them in the order
 * in which they were posted, so that one MPI_Test of the oldest is the only call while nothing
 * happens: it costs the same however many there are, and lets MPI do its work. Sends are not
 * waited for; most have ended before MPI_Isend returns, and all are looked at when some have
 * come together.
 *
 * A send to a dead process may never end. Its buffer stays with MPI; as nobody has more than
 * a window of packets under way to one that takes none, there are few.
 */
#include <coppice/net_mpi.h>

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/packet/start.h"

#define TAG 1
#define PACKET_BYTES 4032u
#define PACKET_LEAST 64u
#define RECEIVES 16u
#define RECEIVES_MAX 4096u
/* Sends under way, to all together; and how many more make it worth to look at them. */
#define SENDS_MAX 4096u
#define SENDS_LOOK 16u
/* How often nothing happens before all receives are looked at. */
#define IDLE_LOOK 64u
#define NONE UINT32_MAX

/* A packet on its way. */
struct packet {
    struct packet *next; /* in the list of those that are free */
    cop_id peer;
    uint8_t bytes[];
};

struct cop_mpi {
    MPI_Comm comm;
    struct cop__host *host;
    struct cop_view *view;
    uint32_t packet_bytes, receives;
    uint8_t *came; /* a buffer for each receive */
    uint32_t
        *line; /* receives in the order of their posting, from `first` on, around */
    uint32_t first, idle;
    uint32_t spent; /* a receive that is over and not posted again yet, or NONE */
    /* Receives, then sends; `packets` goes with the sends. */
    MPI_Request *requests;
    struct packet **packets;
    uint32_t sends, room, sends_look;
    int *indices;
    MPI_Status *statuses;
    struct packet *free;
    struct packet *making; /* what cop__carrier.room gave */
    bool yields;           /* MPI itself lets others run while it waits */
    uint64_t errors;
};

/* ---- sending --------------------------------------------------------------------- */

static int make_room(struct cop_mpi *mpi)
{
    uint32_t room = mpi->room ? 2 * mpi->room : 32;
    size_t all = (size_t)mpi->receives + room;
    void *requests = realloc(mpi->requests, all * sizeof(MPI_Request));
    mpi->requests = requests ? requests : mpi->requests;
    void *packets = realloc(mpi->packets, room * sizeof(struct packet *));
    mpi->packets = packets ? packets : mpi->packets;
    void *indices = realloc(mpi->indices, all * sizeof *mpi->indices);
    mpi->indices = indices ? indices : mpi->indices;
    void *statuses = realloc(mpi->statuses, all * sizeof *mpi->statuses);
    mpi->statuses = statuses ? statuses : mpi->statuses;
    if (!requests || !packets || !indices || !statuses)
        return COP_ENOMEM;
    mpi->room = room;
    return 0;
}

static int on_room(void *context, cop_id peer, uint8_t **out)
{
    struct cop_mpi *mpi = context;
    struct packet *packet = mpi->free;
    if (mpi->sends == SENDS_MAX)
        return COP_EAGAIN;
    if (mpi->sends == mpi->room && make_room(mpi) != 0)
        return COP_ENOMEM;
    if (mpi->making != NULL)
        packet = mpi->making;
    else if (packet != NULL)
        mpi->free = packet->next;
    else if ((packet = malloc(sizeof *packet + mpi->packet_bytes)) == NULL)
        return COP_ENOMEM;
    packet->peer = peer;
    mpi->making = packet;
    *out = packet->bytes;
    return 0;
}

static void give_back(struct cop_mpi *mpi, struct packet *packet)
{
    packet->next = mpi->free;
    mpi->free = packet;
}

static int on_send(void *context, cop_id peer, uint8_t *bytes, size_t length)
{
    struct cop_mpi *mpi = context;
    struct packet *packet = mpi->making;
    mpi->making = NULL;
    int error = MPI_Isend(bytes, (int)length, MPI_BYTE, (int)peer, TAG, mpi->comm,
                          &mpi->requests[mpi->receives + mpi->sends]);
    if (error != MPI_SUCCESS) {
        mpi->errors++;
        give_back(mpi, packet);
        return COP_ELOST;
    }
    mpi->packets[mpi->sends++] = packet;
    return 0;
}

static void on_sent(struct cop_mpi *mpi, uint32_t index)
{
    uint32_t last = --mpi->sends;
    give_back(mpi, mpi->packets[index]);
    mpi->packets[index] = mpi->packets[last];
    mpi->requests[mpi->receives + index] = mpi->requests[mpi->receives + last];
}

/* ---- receiving ------------------------------------------------------------------- */

static int post(struct cop_mpi *mpi, uint32_t index)
{
    int error =
        MPI_Irecv(mpi->came + (size_t)index * mpi->packet_bytes, (int)mpi->packet_bytes,
                  MPI_BYTE, MPI_ANY_SOURCE, TAG, mpi->comm, &mpi->requests[index]);
    return error == MPI_SUCCESS ? 0 : COP_EIO;
}

/* What it brought. The next progress posts it again: the answer goes out first. */
static void on_came(struct cop_mpi *mpi, uint32_t index, const MPI_Status *status)
{
    int length;
    if (MPI_Get_count(status, MPI_BYTE, &length) == MPI_SUCCESS && length > 0)
        cop__host_arrived(mpi->host, (cop_id)status->MPI_SOURCE,
                          mpi->came + (size_t)index * mpi->packet_bytes,
                          (size_t)length);
}

static int post_spent(struct cop_mpi *mpi)
{
    uint32_t index = mpi->spent;
    mpi->spent = NONE;
    return index == NONE ? 0 : post(mpi, index);
}

static bool has_failed(const struct cop_mpi *mpi, int error, int i)
{
    return error == MPI_ERR_IN_STATUS && mpi->statuses[i].MPI_ERROR != MPI_SUCCESS;
}

static void on_received(struct cop_mpi *mpi, uint32_t index, bool is_good,
                        const MPI_Status *status)
{
    if (is_good)
        on_came(mpi, index, status);
    else
        mpi->errors++;
}

/* Whether a packet came in the oldest receive, or an error. */
static int take_oldest(struct cop_mpi *mpi)
{
    uint32_t index = mpi->line[mpi->first];
    MPI_Status status;
    int done = 0;
    int error = MPI_Test(&mpi->requests[index], &done, &status);
    if (error == MPI_SUCCESS && !done)
        return 0;
    mpi->first = mpi->first + 1 < mpi->receives ? mpi->first + 1 : 0;
    mpi->spent = index;
    on_received(mpi, index, error == MPI_SUCCESS, &status);
    return 1;
}

/* Some have ended before the oldest. They go to the end of the line, and those that were
 * passed over before them. */
static void line_up(struct cop_mpi *mpi)
{
    uint32_t n = mpi->receives, last = 0, at = 0;
    uint32_t *before = mpi->line + n, *line = mpi->line;
    for (uint32_t i = 0; i < n; i++) {
        before[i] = line[(mpi->first + i) % n];
        if (mpi->requests[before[i]] == MPI_REQUEST_NULL)
            last = i;
    }
    for (uint32_t i = last + 1; i < n; i++)
        line[at++] = before[i];
    for (uint32_t i = 0; i <= last; i++)
        if (mpi->requests[before[i]] != MPI_REQUEST_NULL)
            line[at++] = before[i];
    for (uint32_t i = 0; i <= last; i++)
        if (mpi->requests[before[i]] == MPI_REQUEST_NULL)
            line[at++] = before[i];
    mpi->first = 0;
}

/*
 * All receives, and how many packets came. A message that MPI moves in several pieces ends
 * later than it began; if its sender has died, never.
 */
static int take_any(struct cop_mpi *mpi)
{
    int count = 0, failure = 0;
    int error = MPI_Testsome((int)mpi->receives, mpi->requests, &count, mpi->indices,
                             mpi->statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS)
        return COP_EIO;
    if (count == MPI_UNDEFINED || count == 0)
        return 0;
    line_up(mpi);
    for (int i = 0; i < count && failure == 0; i++) {
        uint32_t index = (uint32_t)mpi->indices[i];
        on_received(mpi, index, !has_failed(mpi, error, i), &mpi->statuses[i]);
        failure = post(mpi, index);
    }
    return failure ? failure : count;
}

/* Sends that have ended. */
static int look_at_sends(struct cop_mpi *mpi)
{
    int count = 0;
    int error = MPI_Testsome((int)mpi->sends, mpi->requests + mpi->receives, &count,
                             mpi->indices, mpi->statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS)
        return COP_EIO;
    /* From the back: one that has ended is replaced by the last one. */
    for (int i = count == MPI_UNDEFINED ? -1 : count - 1; i >= 0; i--) {
        uint32_t index = (uint32_t)mpi->indices[i];
        cop_id peer = mpi->packets[index]->peer;
        on_sent(mpi, index);
        if (!has_failed(mpi, error, i))
            continue;
        mpi->errors++;
        cop__host_cut(mpi->host, peer, COP_DOWN_SILENT);
    }
    mpi->sends_look = mpi->sends + SENDS_LOOK;
    return 0;
}

/* How many packets came, or an error. */
static int test(struct cop_mpi *mpi)
{
    bool is_turn = ++mpi->idle % IDLE_LOOK == 0;
    int error = post_spent(mpi);
    if (error)
        return error;
    int came = take_oldest(mpi);
    if (came == 0 && is_turn)
        came = take_any(mpi);
    if (came > 0)
        mpi->idle = 0;
    if (came >= 0 && mpi->sends > 0 && (is_turn || mpi->sends >= mpi->sends_look))
        error = look_at_sends(mpi);
    return error ? error : came;
}

/* ---- the loop -------------------------------------------------------------------- */

int cop_mpi_progress(struct cop_mpi *mpi)
{
    int came = test(mpi);
    if (came < 0)
        return came;
    int told = cop__host_settle(mpi->host);
    return told < 0 ? told : came + told;
}

static int on_wait(void *context) { return cop_mpi_progress(context); }

int cop_mpi_wait(struct cop_mpi *mpi, cop_time timeout_ns)
{
    return cop__wait(on_wait, mpi, mpi->yields, timeout_ns);
}

int cop_mpi_submit(struct cop_mpi *mpi, const struct cop_request *request)
{
    return cop__host_submit(mpi->host, request);
}

const struct cop_node *cop_mpi_node(const struct cop_mpi *mpi)
{
    return cop__host_node(mpi->host);
}

struct cop_mpi_stats cop_mpi_stats(const struct cop_mpi *mpi)
{
    const struct cop__host_stats *from = cop__host_stats(mpi->host);
    return (struct cop_mpi_stats){.packets_sent = from->sent,
                                  .packets_received = from->received,
                                  .packets_early = from->early,
                                  .packets_bare = from->bare,
                                  .malformed = from->malformed,
                                  .frames_dropped = from->dropped,
                                  .errors = mpi->errors};
}

/* ---- life ------------------------------------------------------------------------ */

/* The life of all processes: rank 0 names it. */
static int name_life(struct cop_mpi *mpi, cop_incarnation *out, char *why, size_t size)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t life = (uint64_t)now.tv_sec * COP_SEC + (uint64_t)now.tv_nsec;
    if (MPI_Bcast(&life, 1, MPI_UINT64_T, 0, mpi->comm) != MPI_SUCCESS)
        return cop__say(COP_EIO, why, size, "MPI_Bcast failed");
    *out = life;
    return 0;
}

static int make_host(struct cop_mpi *mpi, const struct cop_mpi_config *config,
                     char *why, size_t size)
{
    struct cop__host_config host = {.node = config->node,
                                    .packet_bytes = mpi->packet_bytes,
                                    .carrier = {.room = on_room, .send = on_send},
                                    .carrier_context = mpi,
                                    .effect = config->effect,
                                    .context = config->context};
    int rank, n;
    int error = name_life(mpi, &host.node.incarnation, why, size);
    if (error)
        return error;
    MPI_Comm_rank(mpi->comm, &rank);
    MPI_Comm_size(mpi->comm, &n);
    host.node.self = (cop_id)rank;
    return cop__start_host(&host, (uint32_t)n, config->shape, &mpi->view, &mpi->host,
                           why, size);
}

static int post_all(struct cop_mpi *mpi, char *why, size_t size)
{
    mpi->came = malloc((size_t)mpi->receives * mpi->packet_bytes);
    mpi->line = calloc(2 * (size_t)mpi->receives, sizeof *mpi->line);
    if (mpi->came == NULL || mpi->line == NULL || make_room(mpi) != 0)
        return cop__say(COP_ENOMEM, why, size, "no memory for %u receives of %u bytes",
                        mpi->receives, mpi->packet_bytes);
    for (uint32_t i = 0; i < mpi->receives; i++) {
        mpi->requests[i] = MPI_REQUEST_NULL;
        mpi->line[i] = i;
    }
    for (uint32_t i = 0; i < mpi->receives; i++)
        if (post(mpi, i) != 0)
            return cop__say(COP_EIO, why, size, "MPI_Irecv failed");
    return 0;
}

static int check(const struct cop_mpi_config *config, char *why, size_t size)
{
    if (cop__check_size(config->size, sizeof *config, why, size) != 0)
        return COP_EINVAL;
    if (config->effect == NULL || config->comm == MPI_COMM_NULL)
        return cop__say(COP_EINVAL, why, size, "there is no %s",
                        config->effect ? "communicator" : "callback for effects");
    if (config->packet_bytes != 0 && (config->packet_bytes < PACKET_LEAST ||
                                      config->packet_bytes > UINT32_C(1) << 20))
        return cop__say(COP_EINVAL, why, size, "packets of %u bytes: from %u to 1 MiB",
                        config->packet_bytes, PACKET_LEAST);
    if (config->receives > RECEIVES_MAX)
        return cop__say(COP_EINVAL, why, size, "%u receives: at most %u",
                        config->receives, RECEIVES_MAX);
    return 0;
}

static bool mpi_yields(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(version, &length);
    return strncmp(version, "Open MPI", 8) == 0;
}

/* Open MPI writes to its sockets with writev, and so gets SIGPIPE where the other end has died just
 * before: a survivor would die of it. Who handles the signal, or ignores it, goes on to do so. */
static void mind_pipe(void)
{
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

int cop_mpi_create(const struct cop_mpi_config *config, struct cop_mpi **out, char *why,
                   size_t why_size)
{
    int error = check(config, why, why_size);
    struct cop_mpi *mpi = error ? NULL : calloc(1, sizeof *mpi);
    if (mpi == NULL)
        return error ? error : cop__say(COP_ENOMEM, why, why_size, "no memory");
    mpi->packet_bytes = config->packet_bytes ? config->packet_bytes : PACKET_BYTES;
    mpi->receives = config->receives ? config->receives : RECEIVES;
    mpi->sends_look = SENDS_LOOK;
    mpi->spent = NONE;
    mpi->yields = mpi_yields();
    mpi->comm = MPI_COMM_NULL;
    if (MPI_Comm_dup(config->comm, &mpi->comm) != MPI_SUCCESS) {
        free(mpi);
        return cop__say(COP_EIO, why, why_size, "MPI_Comm_dup failed");
    }
    MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
    mind_pipe();
    error = make_host(mpi, config, why, why_size);
    if (error == 0)
        error = post_all(mpi, why, why_size);
    if (error) {
        cop_mpi_destroy(mpi, 0);
        return error;
    }
    *out = mpi;
    return 0;
}

/* Whether MPI has given the buffers back. What it has not is left to it. */
static bool withdraw(struct cop_mpi *mpi)
{
    bool is_mine = true;
    for (uint32_t i = 0; mpi->requests && mpi->came && i < mpi->receives; i++) {
        int done = 1;
        if (mpi->requests[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(&mpi->requests[i]);
        MPI_Test(&mpi->requests[i], &done, MPI_STATUS_IGNORE);
        if (!done)
            MPI_Request_free(&mpi->requests[i]);
        is_mine = is_mine && done;
    }
    return is_mine;
}

static void finish_sends(struct cop_mpi *mpi)
{
    for (uint32_t i = 0; i < mpi->sends; i++) {
        int done = 0;
        MPI_Test(&mpi->requests[mpi->receives + i], &done, MPI_STATUS_IGNORE);
        if (done)
            free(mpi->packets[i]);
        else
            MPI_Request_free(&mpi->requests[mpi->receives + i]);
    }
}

static bool is_whole(const struct cop_mpi *mpi)
{
    return mpi->host == NULL ||
           cop_view_size(cop_node_view(cop_mpi_node(mpi))) == cop_view_size(mpi->view);
}

void cop_mpi_destroy(struct cop_mpi *mpi, cop_time patience_ns)
{
    if (mpi == NULL)
        return;
    cop_time until = cop__until(patience_ns);
    while (mpi->host && mpi->came && cop__host_is_owing(mpi->host) &&
           cop__host_now() < until && cop_mpi_progress(mpi) >= 0)
        if (!mpi->yields)
            sched_yield();
    finish_sends(mpi);
    if (withdraw(mpi))
        free(mpi->came);
    /* Where somebody is dead not all would call it. */
    if (is_whole(mpi))
        MPI_Comm_free(&mpi->comm);
    cop__host_destroy(mpi->host);
    cop_view_unref(mpi->view);
    while (mpi->free) {
        struct packet *next = mpi->free->next;
        free(mpi->free);
        mpi->free = next;
    }
    free(mpi->making);
    free(mpi->line);
    free(mpi->requests);
    free(mpi->packets);
    free(mpi->indices);
    free(mpi->statuses);
    free(mpi);
}
