/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets as messages of libfabric. One endpoint, one completion queue, one table of addresses;
 * receives from anybody are posted ahead. Not every provider can say where a message came from,
 * so each begins with the id of its sender, 32 bits.
 *
 * Where the provider can read the memory of others, large payloads of bulk are read by whoever
 * gets them (net/packet/pair.h): its sender registers the buffer for as long as that takes.
 */
#include <coppice/net_ofi.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "net/packet/pair.h"
#include "net/packet/start.h"
#include "wire/codec.h"

#define API FI_VERSION(1, 14)
#define SENDER_BYTES 4u
#define MESSAGE_BYTES 4032u
#define RECEIVES 64u
/* Packets are made in slabs, which are registered where the provider wants that. */
#define SLAB_PACKETS 64u
#define SLABS_MAX 64u
#define ENTRIES 32u
/* Below this a payload is in the packets before its offer would be answered. */
#define FETCH_LEAST 16384u
/* Twice this may lie free at the end of the heap: what is offered to a few peers at a time. */
#define HEAP_KEPT (UINT32_C(4) << 20)

/* What the provider is doing; the first member of what it is done with. */
struct operation {
    struct fi_context2 context; /* the provider's, until it has ended */
    enum { RECEIVING, SENDING, READING } kind;
    cop_id peer;
};

/* A message: one that comes, one on its way, or one that is free. */
struct message {
    struct operation operation;
    struct message *next;
    void *descriptor;
    size_t length;
    uint8_t bytes[MESSAGE_BYTES];
};

/* A payload that is read; in the list of all, as those of the dead may never end. */
struct reading {
    struct operation operation;
    struct reading **at, *next;
    uint32_t number;
    struct cop_buf *payload;
    struct fid_mr *region; /* NULL where none is wanted */
};

struct slab {
    struct message *messages;
    struct fid_mr *region; /* NULL where none is wanted */
};

struct cop_ofi {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *endpoint;
    struct cop_ofi_name name;
    struct cop__host *host;
    struct cop_view *view;
    cop_id self;
    fi_addr_t *peers; /* by id */
    struct slab slabs[SLABS_MAX];
    uint32_t slab_count;
    struct message *free, *making;
    struct message *waiting; /* that the provider would not take yet */
    struct reading *readings;
    uint32_t sending;
    bool has_reads;
    uint64_t last_key;
};

/* ---- messages -------------------------------------------------------------------- */

static int add_slab(struct cop_ofi *ofi)
{
    struct slab *slab = &ofi->slabs[ofi->slab_count];
    void *descriptor = NULL;
    if (ofi->slab_count == SLABS_MAX)
        return COP_EAGAIN;
    slab->region = NULL;
    slab->messages = calloc(SLAB_PACKETS, sizeof *slab->messages);
    if (slab->messages == NULL)
        return COP_ENOMEM;
    if (ofi->info->domain_attr->mr_mode & FI_MR_LOCAL) {
        if (fi_mr_reg(ofi->domain, slab->messages,
                      SLAB_PACKETS * sizeof *slab->messages, FI_SEND | FI_RECV, 0, 0, 0,
                      &slab->region, NULL) != 0) {
            free(slab->messages);
            return COP_EIO;
        }
        descriptor = fi_mr_desc(slab->region);
    }
    for (uint32_t i = 0; i < SLAB_PACKETS; i++) {
        slab->messages[i].descriptor = descriptor;
        slab->messages[i].next = ofi->free;
        ofi->free = &slab->messages[i];
    }
    ofi->slab_count++;
    return 0;
}

static int take_message(struct cop_ofi *ofi, struct message **out)
{
    int error = ofi->free == NULL ? add_slab(ofi) : 0;
    if (error)
        return error;
    *out = ofi->free;
    ofi->free = (*out)->next;
    return 0;
}

static void give_back(struct cop_ofi *ofi, struct message *message)
{
    message->next = ofi->free;
    ofi->free = message;
}

static int on_room(void *context, cop_id peer, uint8_t **out)
{
    struct cop_ofi *ofi = context;
    int error = ofi->making ? 0 : take_message(ofi, &ofi->making);
    if (error)
        return error;
    ofi->making->operation.peer = peer;
    *out = ofi->making->bytes + SENDER_BYTES;
    return 0;
}

/* 0; COP_EAGAIN: it waits for its turn. Numbers keep the order, so that may be any. */
static int try_to_send(struct cop_ofi *ofi, struct message *message)
{
    ssize_t error =
        fi_send(ofi->endpoint, message->bytes, message->length, message->descriptor,
                ofi->peers[message->operation.peer], &message->operation.context);
    if (error == 0) {
        ofi->sending++;
        return 0;
    }
    if (error == -FI_EAGAIN) {
        message->next = ofi->waiting;
        ofi->waiting = message;
        return COP_EAGAIN;
    }
    give_back(ofi, message);
    return COP_ELOST;
}

static int on_send(void *context, cop_id peer, uint8_t *packet, size_t length)
{
    struct cop_ofi *ofi = context;
    struct message *message = ofi->making;
    struct cop__writer writer = cop__writer(message->bytes, SENDER_BYTES);
    (void)packet;
    ofi->making = NULL;
    message->operation.kind = SENDING;
    message->operation.peer = peer;
    message->length = SENDER_BYTES + length;
    cop__put_u32(&writer, ofi->self);
    int error = try_to_send(ofi, message);
    return error == COP_EAGAIN ? 0 : error;
}

/* What waited, once more. One that cannot be reached holds up nobody else. */
static void send_waiting(struct cop_ofi *ofi)
{
    struct message *message = ofi->waiting;
    ofi->waiting = NULL;
    while (message != NULL) {
        struct message *next = message->next;
        cop_id peer = message->operation.peer;
        if (try_to_send(ofi, message) == COP_ELOST)
            cop__host_cut(ofi->host, peer, COP_DOWN_SILENT);
        message = next;
    }
}

static int post(struct cop_ofi *ofi, struct message *message)
{
    message->operation.kind = RECEIVING;
    ssize_t error =
        fi_recv(ofi->endpoint, message->bytes, MESSAGE_BYTES, message->descriptor,
                FI_ADDR_UNSPEC, &message->operation.context);
    return error == 0 ? 0 : COP_EIO;
}

/* ---- reading --------------------------------------------------------------------- */

static int on_expose(void *context, struct cop_buf *payload, struct cop__remote *out,
                     void **region)
{
    struct cop_ofi *ofi = context;
    struct fid_mr *mr;
    if (payload->length > ofi->info->ep_attr->max_msg_size ||
        fi_mr_reg(ofi->domain, payload->data, payload->length, FI_REMOTE_READ, 0,
                  ++ofi->last_key, 0, &mr, NULL) != 0)
        return COP_EIO;
    bool is_virtual = ofi->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    out->address = is_virtual ? (uintptr_t)payload->data : 0;
    out->key = fi_mr_key(mr);
    *region = mr;
    return 0;
}

static void on_conceal(void *context, void *region)
{
    struct fid_mr *mr = region;
    (void)context;
    fi_close(&mr->fid);
}

static void end_reading(struct reading *reading)
{
    *reading->at = reading->next;
    if (reading->next)
        reading->next->at = reading->at;
    if (reading->region)
        fi_close(&reading->region->fid);
    cop_buf_unref(reading->payload);
    free(reading);
}

static int start_reading(struct cop_ofi *ofi, struct reading *reading,
                         const struct cop__remote *from)
{
    struct cop_buf *payload = reading->payload;
    void *descriptor = NULL;
    if (ofi->info->domain_attr->mr_mode & FI_MR_LOCAL) {
        if (fi_mr_reg(ofi->domain, payload->data, payload->length, FI_READ, 0,
                      ++ofi->last_key, 0, &reading->region, NULL) != 0)
            return COP_EIO;
        descriptor = fi_mr_desc(reading->region);
    }
    ssize_t error =
        fi_read(ofi->endpoint, payload->data, payload->length, descriptor,
                ofi->peers[reading->operation.peer], from->address, from->key, reading);
    return error == 0 ? 0 : error == -FI_EAGAIN ? COP_EAGAIN : COP_EIO;
}

static int on_fetch(void *context, cop_id peer, uint32_t number,
                    const struct cop__remote *from, struct cop_buf *payload)
{
    struct cop_ofi *ofi = context;
    struct reading *reading = calloc(1, sizeof *reading);
    if (reading == NULL)
        return COP_EAGAIN;
    reading->operation.kind = READING;
    reading->operation.peer = peer;
    reading->number = number;
    reading->payload = payload;
    cop_buf_ref(payload);
    reading->next = ofi->readings;
    reading->at = &ofi->readings;
    if (ofi->readings)
        ofi->readings->at = &reading->next;
    ofi->readings = reading;
    int error = start_reading(ofi, reading, from);
    if (error)
        end_reading(reading);
    return error;
}

static void on_read(struct cop_ofi *ofi, struct reading *reading, int error)
{
    cop_id peer = reading->operation.peer;
    uint32_t number = reading->number;
    end_reading(reading);
    cop__host_fetched(ofi->host, peer, number, error);
}

/* ---- completions ----------------------------------------------------------------- */

static int on_came(struct cop_ofi *ofi, struct message *message, size_t length)
{
    struct cop__reader reader = cop__reader(message->bytes, length);
    cop_id sender = cop__get_u32(&reader);
    if (!reader.failed)
        cop__host_arrived(ofi->host, sender, message->bytes + SENDER_BYTES,
                          length - SENDER_BYTES);
    return post(ofi, message);
}

static int on_done(struct cop_ofi *ofi, const struct fi_cq_msg_entry *entry)
{
    struct operation *operation = entry->op_context;
    switch (operation->kind) {
    case RECEIVING:
        return on_came(ofi, (struct message *)operation, entry->len);
    case SENDING:
        ofi->sending--;
        give_back(ofi, (struct message *)operation);
        return 0;
    default:
        on_read(ofi, (struct reading *)operation, 0);
        return 0;
    }
}

/* An operation that failed: of a send, nothing more can go to that peer. */
static int on_failed(struct cop_ofi *ofi)
{
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(ofi->queue, &entry, 0) < 1 || entry.op_context == NULL)
        return 0;
    struct operation *operation = entry.op_context;
    if (operation->kind == RECEIVING)
        return post(ofi, (struct message *)operation);
    if (operation->kind == READING) {
        on_read(ofi, (struct reading *)operation, COP_EIO);
        return 0;
    }
    ofi->sending--;
    cop_id peer = operation->peer;
    give_back(ofi, (struct message *)operation);
    cop__host_cut(ofi->host, peer, COP_DOWN_SILENT);
    return 0;
}

/* How many packets and payloads came, or an error. */
static int drain(struct cop_ofi *ofi)
{
    struct fi_cq_msg_entry entries[ENTRIES];
    int came = 0, error = 0;
    ssize_t count = fi_cq_read(ofi->queue, entries, ENTRIES);
    if (count == -FI_EAGAIN)
        return 0;
    if (count == -FI_EAVAIL)
        return on_failed(ofi);
    if (count < 0)
        return COP_EIO;
    for (ssize_t i = 0; i < count && error == 0; i++) {
        const struct operation *operation = entries[i].op_context;
        came += operation->kind != SENDING;
        error = on_done(ofi, &entries[i]);
    }
    return error ? error : came;
}

int cop_ofi_progress(struct cop_ofi *ofi)
{
    int came = drain(ofi);
    if (came < 0)
        return came;
    send_waiting(ofi);
    int told = cop__host_settle(ofi->host);
    return told < 0 ? told : came + told;
}

static int on_wait(void *context) { return cop_ofi_progress(context); }

int cop_ofi_wait(struct cop_ofi *ofi, cop_time timeout_ns)
{
    return cop__wait(on_wait, ofi, false, timeout_ns);
}

int cop_ofi_submit(struct cop_ofi *ofi, const struct cop_request *request)
{
    return cop__host_submit(ofi->host, request);
}

const struct cop_node *cop_ofi_node(const struct cop_ofi *ofi)
{
    return ofi->host ? cop__host_node(ofi->host) : NULL;
}

struct cop_ofi_stats cop_ofi_stats(const struct cop_ofi *ofi)
{
    if (ofi->host == NULL)
        return (struct cop_ofi_stats){0};
    const struct cop__host_stats *from = cop__host_stats(ofi->host);
    return (struct cop_ofi_stats){.packets_sent = from->sent,
                                  .packets_received = from->received,
                                  .payloads_offered = from->offered,
                                  .payloads_read = from->fetched};
}

void cop_ofi_name(const struct cop_ofi *ofi, struct cop_ofi_name *out)
{
    *out = ofi->name;
}

/* ---- opening --------------------------------------------------------------------- */

static int ask_for(struct cop_ofi *ofi, const char *provider, const char *node,
                   uint64_t capabilities)
{
    struct fi_info *hints = fi_allocinfo();
    if (hints == NULL)
        return -FI_ENOMEM;
    hints->caps = capabilities;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    if (provider != NULL)
        hints->fabric_attr->prov_name = strdup(provider);
    /* Without a name any provider would do. */
    int error =
        provider != NULL && hints->fabric_attr->prov_name == NULL
            ? -FI_ENOMEM
            : fi_getinfo(API, node, NULL, node ? FI_SOURCE : 0, hints, &ofi->info);
    fi_freeinfo(hints);
    return error;
}

/* One that can read the memory of others, if there is one. */
static int find_provider(struct cop_ofi *ofi, const char *provider, const char *node,
                         char *why, size_t size)
{
    int error =
        ask_for(ofi, provider, node, FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ);
    ofi->has_reads = error == 0;
    if (error != 0)
        error = ask_for(ofi, provider, node, FI_MSG);
    if (error == 0)
        return 0;
    cop__say(COP_ENOENT, why, size,
             "libfabric has no reliable datagrams by '%s' here: %s (`fi_info -l` "
             "lists what there is)",
             provider ? provider : "any provider", fi_strerror(-error));
    return COP_ENOENT;
}

static int open_endpoint(struct cop_ofi *ofi)
{
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr table = {.type = FI_AV_UNSPEC};
    int error = fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL);
    if (error == 0)
        error = fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL);
    if (error == 0)
        error = fi_av_open(ofi->domain, &table, &ofi->addresses, NULL);
    if (error == 0)
        error = fi_cq_open(ofi->domain, &queue, &ofi->queue, NULL);
    if (error == 0)
        error = fi_endpoint(ofi->domain, ofi->info, &ofi->endpoint, NULL);
    if (error == 0)
        error = fi_ep_bind(ofi->endpoint, &ofi->addresses->fid, 0);
    if (error == 0)
        error = fi_ep_bind(ofi->endpoint, &ofi->queue->fid, FI_SEND | FI_RECV);
    return error ? error : fi_enable(ofi->endpoint);
}

/*
 * Payloads that were offered are released many at a time. The C library would give that end of
 * the heap back to the kernel, and the next payloads would have to be mapped, and cleared, page by
 * page: for shared memory that took more time than all copying. The block that it sees go here
 * makes it keep twice as much (M_TRIM_THRESHOLD of mallopt(3), where it adapts itself); a program
 * that has set that itself has its way.
 */
static void keep_heap(void)
{
    void *volatile block = malloc(HEAP_KEPT);
    free(block);
}

int cop_ofi_open(const char *provider, const char *node, struct cop_ofi **out,
                 char *why, size_t why_size)
{
    struct cop_ofi *ofi = calloc(1, sizeof *ofi);
    size_t length = COP_OFI_NAME_MAX;
    if (ofi == NULL)
        return cop__say(COP_ENOMEM, why, why_size, "no memory");
    int error = find_provider(ofi, provider, node, why, why_size);
    if (error == 0) {
        keep_heap();
        error = open_endpoint(ofi);
        if (error == 0)
            error = fi_getname(&ofi->endpoint->fid, ofi->name.bytes, &length);
        if (error)
            error = cop__say(COP_EIO, why, why_size, "no endpoint of '%s': %s",
                             ofi->info->fabric_attr->prov_name, fi_strerror(-error));
    }
    if (error) {
        cop_ofi_destroy(ofi, 0);
        return error;
    }
    ofi->name.length = (uint32_t)length;
    *out = ofi;
    return 0;
}

/* ---- starting -------------------------------------------------------------------- */

static int check(const struct cop_ofi *ofi, const struct cop_ofi_config *config,
                 char *why, size_t size)
{
    if (ofi->host != NULL)
        return cop__say(COP_EINVAL, why, size, "it has started already");
    if (cop__check_size(config->size, sizeof *config, why, size) != 0)
        return COP_EINVAL;
    if (config->effect == NULL || config->names == NULL || config->incarnation == 0 ||
        config->self >= config->count)
        return cop__say(
            COP_EINVAL, why, size,
            "a callback for effects, the names of all, an incarnation and an id "
            "below their number are needed");
    return 0;
}

static int add_peers(struct cop_ofi *ofi, const struct cop_ofi_config *config,
                     char *why, size_t size)
{
    free(ofi->peers); /* of an attempt before, that failed */
    ofi->peers = calloc(config->count, sizeof *ofi->peers);
    if (ofi->peers == NULL)
        return cop__say(COP_ENOMEM, why, size, "no memory");
    for (uint32_t i = 0; i < config->count; i++)
        if (config->names[i].length > COP_OFI_NAME_MAX ||
            fi_av_insert(ofi->addresses, config->names[i].bytes, 1, &ofi->peers[i], 0,
                         NULL) != 1)
            return cop__say(COP_EIO, why, size, "the name of %u is not one of '%s'", i,
                            ofi->info->fabric_attr->prov_name);
    return 0;
}

static int make_host(struct cop_ofi *ofi, const struct cop_ofi_config *config,
                     char *why, size_t size)
{
    struct cop__host_config host = {.node = config->node,
                                    .packet_bytes = MESSAGE_BYTES - SENDER_BYTES,
                                    .carrier = {.room = on_room,
                                                .send = on_send,
                                                .expose = on_expose,
                                                .conceal = on_conceal,
                                                .fetch = on_fetch},
                                    .carrier_context = ofi,
                                    .effect = config->effect,
                                    .context = config->context};
    if (ofi->has_reads && !config->no_reads)
        host.carrier.fetch_least = FETCH_LEAST;
    host.node.self = config->self;
    host.node.incarnation = config->incarnation;
    return cop__start_host(&host, config->count, config->shape, &ofi->view, &ofi->host,
                           why, size);
}

int cop_ofi_start(struct cop_ofi *ofi, const struct cop_ofi_config *config, char *why,
                  size_t why_size)
{
    int error = check(ofi, config, why, why_size);
    if (error)
        return error;
    ofi->self = config->self;
    error = add_peers(ofi, config, why, why_size);
    if (error == 0)
        error = make_host(ofi, config, why, why_size);
    for (uint32_t i = 0; i < RECEIVES && error == 0; i++) {
        struct message *message;
        error = take_message(ofi, &message);
        if (error == 0)
            error = post(ofi, message);
        if (error)
            cop__say(error, why, why_size, "no receives: %s", cop_strerror(error));
    }
    return error;
}

/* ---- ending ---------------------------------------------------------------------- */

static void close_fid(struct fid *fid)
{
    if (fid != NULL)
        fi_close(fid);
}

void cop_ofi_destroy(struct cop_ofi *ofi, cop_time patience_ns)
{
    if (ofi == NULL)
        return;
    cop_time until = cop__until(patience_ns);
    while (ofi->host &&
           (cop__host_is_owing(ofi->host) || ofi->sending > 0 || ofi->waiting) &&
           cop__host_now() < until && cop_ofi_progress(ofi) >= 0)
        sched_yield();
    /* The endpoint first: what it still has is given back by that. */
    close_fid(ofi->endpoint ? &ofi->endpoint->fid : NULL);
    close_fid(ofi->queue ? &ofi->queue->fid : NULL);
    close_fid(ofi->addresses ? &ofi->addresses->fid : NULL);
    cop__host_destroy(ofi->host);
    for (struct reading *reading = ofi->readings, *next; reading; reading = next) {
        next = reading->next;
        end_reading(reading);
    }
    for (uint32_t i = 0; i < ofi->slab_count; i++) {
        close_fid(ofi->slabs[i].region ? &ofi->slabs[i].region->fid : NULL);
        free(ofi->slabs[i].messages);
    }
    close_fid(ofi->domain ? &ofi->domain->fid : NULL);
    close_fid(ofi->fabric ? &ofi->fabric->fid : NULL);
    if (ofi->info)
        fi_freeinfo(ofi->info);
    cop_view_unref(ofi->view);
    free(ofi->peers);
    free(ofi);
}
