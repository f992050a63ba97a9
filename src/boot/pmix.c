/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx, by libpmix, which is loaded when there is a launcher that speaks it: it brings
 * libevent and hwloc with it, and an agent without a launcher shall not carry them.
 *
 * It is used for the exchange and finalized at once. A client of PMIx that dies takes its
 * whole step with it under srun, and as a detector of failures it says nothing.
 */
#include "boot/exchange.h"

#include <coppice/error.h>
#include <stdlib.h>

#ifdef COPPICE_HAS_PMIX

#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>
#include <string.h>

/* Many names for the same: what Debian has, and what others call it. */
static const char *const libraries[] = {"libpmix.so.2", "libpmix.so"};

#define KEY "coppice"

struct pmix {
    void *library;
    bool is_open;
    pmix_proc_t self;
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t[], size_t);
    pmix_status_t (*finalize)(const pmix_info_t[], size_t);
    pmix_status_t (*put)(pmix_scope_t, const pmix_key_t, pmix_value_t *);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence)(const pmix_proc_t[], size_t, const pmix_info_t[], size_t);
    pmix_status_t (*get)(const pmix_proc_t *, const pmix_key_t, const pmix_info_t[],
                         size_t, pmix_value_t **);
    const char *(*error_string)(pmix_status_t);
};

static bool is_there(void)
{
    return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
}

static int fail_with(const struct pmix *pmix, pmix_status_t status, const char *what,
                     char *message, size_t size)
{
    return cop__exchange_fail(COP_EREFUSED, message, size, "%s by PMIx: %s", what,
                              pmix->error_string(status));
}

/* ---- the library ----------------------------------------------------------------- */

static bool find(struct pmix *pmix, const char *name, void *out)
{
    void *found = dlsym(pmix->library, name);
    /* ISO C has no cast from an object to a function. */
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

static int load(struct pmix *pmix, char *message, size_t size)
{
    for (size_t i = 0;
         pmix->library == NULL && i < sizeof libraries / sizeof *libraries; i++)
        pmix->library = dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL);
    if (pmix->library == NULL)
        return cop__exchange_fail(COP_ENOENT, message, size,
                                  "the launcher speaks PMIx, and libpmix is not "
                                  "installed here (on Debian: libpmix2): %s",
                                  dlerror());
    if (find(pmix, "PMIx_Init", &pmix->init) &&
        find(pmix, "PMIx_Finalize", &pmix->finalize) &&
        find(pmix, "PMIx_Put", &pmix->put) &&
        find(pmix, "PMIx_Commit", &pmix->commit) &&
        find(pmix, "PMIx_Fence", &pmix->fence) && find(pmix, "PMIx_Get", &pmix->get) &&
        find(pmix, "PMIx_Error_string", &pmix->error_string))
        return 0;
    return cop__exchange_fail(COP_ENOENT, message, size,
                              "this libpmix lacks what every version has: %s",
                              dlerror());
}

/* A value of type `type` of the job or of one of its processes; to be freed. */
static pmix_value_t *get_value(const struct pmix *pmix, pmix_rank_t rank,
                               const char *key, pmix_data_type_t type,
                               pmix_status_t *status)
{
    pmix_proc_t whose = pmix->self;
    pmix_value_t *value = NULL;
    whose.rank = rank;
    *status = pmix->get(&whose, key, NULL, 0, &value);
    if (*status == PMIX_SUCCESS && value != NULL && value->type == type)
        return value;
    if (*status == PMIX_SUCCESS)
        *status = PMIX_ERR_TYPE_MISMATCH;
    free(value);
    return NULL;
}

static bool get_number(const struct pmix *pmix, const char *key, uint32_t *out,
                       pmix_status_t *status)
{
    pmix_value_t *value = get_value(pmix, PMIX_RANK_WILDCARD, key, PMIX_UINT32, status);
    if (value == NULL)
        return false;
    *out = value->data.uint32;
    free(value);
    return true;
}

/* ---- the protocol ---------------------------------------------------------------- */

static int open_pmix(struct cop__exchange *exchange, char *message, size_t size)
{
    struct pmix *pmix = calloc(1, sizeof *pmix);
    pmix_status_t status;
    uint32_t here = 0;
    if (pmix == NULL)
        return COP_ENOMEM;
    exchange->state = pmix;
    int error = load(pmix, message, size);
    if (error)
        return error;
    /* load() found it. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
    status = pmix->init(&pmix->self, NULL, 0);
    if (status != PMIX_SUCCESS)
        return fail_with(pmix, status, "no connection to the launcher", message, size);
    pmix->is_open = true;
    if (!get_number(pmix, PMIX_JOB_SIZE, &exchange->size, &status))
        return fail_with(pmix, status, "the launcher does not tell the job's size",
                         message, size);
    exchange->rank = pmix->self.rank;
    if (exchange->rank >= exchange->size)
        return cop__exchange_fail(COP_EREFUSED, message, size,
                                  "PMIx: process %u of %u is not one", exchange->rank,
                                  exchange->size);
    exchange->is_local =
        get_number(pmix, PMIX_LOCAL_SIZE, &here, &status) && here == exchange->size;
    snprintf(exchange->job, sizeof exchange->job, "%s", pmix->self.nspace);
    return 0;
}

static int publish(struct cop__exchange *exchange, const char *word, char *message,
                   size_t size)
{
    struct pmix *pmix = exchange->state;
    char copy[COP__WORD_MAX];
    bool yes = true;
    pmix_info_t collect = {.key = PMIX_COLLECT_DATA};
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = yes;
    snprintf(copy, sizeof copy, "%s", word);
    pmix_value_t value = {.type = PMIX_STRING};
    value.data.string = copy;
    pmix_status_t status = pmix->put(PMIX_GLOBAL, KEY, &value);
    if (status == PMIX_SUCCESS)
        status = pmix->commit();
    pmix_proc_t all = pmix->self;
    all.rank = PMIX_RANK_WILDCARD;
    if (status == PMIX_SUCCESS)
        status = pmix->fence(&all, 1, &collect, 1);
    return status == PMIX_SUCCESS
               ? 0
               : fail_with(pmix, status, "no exchange of addresses", message, size);
}

static int get(struct cop__exchange *exchange, uint32_t rank, char *out,
               size_t out_size, char *message, size_t size)
{
    struct pmix *pmix = exchange->state;
    pmix_status_t status;
    pmix_value_t *value = get_value(pmix, rank, KEY, PMIX_STRING, &status);
    if (value == NULL)
        return cop__exchange_fail(COP_EREFUSED, message, size,
                                  "no address of process %u by PMIx: %s", rank,
                                  pmix->error_string(status));
    snprintf(out, out_size, "%s", value->data.string);
    free(value->data.string);
    free(value);
    return 0;
}

/* The library stays loaded: it has keys of threads that it cannot take back. */
static void close_pmix(struct cop__exchange *exchange)
{
    struct pmix *pmix = exchange->state;
    if (pmix != NULL && pmix->is_open)
        pmix->finalize(NULL, 0);
    free(pmix);
    exchange->state = NULL;
}

#else

static bool is_there(void)
{
    return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
}

static int open_pmix(struct cop__exchange *exchange, char *message, size_t size)
{
    (void)exchange;
    return cop__exchange_fail(COP_ENOENT, message, size,
                              "the launcher speaks PMIx, and this library was built "
                              "without it (on Debian: apt-get install libpmix-dev, and "
                              "build again)");
}

static void close_pmix(struct cop__exchange *exchange) { (void)exchange; }
#define publish NULL
#define get NULL

#endif

const struct cop__exchange_protocol cop__exchange_pmix = {
    .name = "pmix",
    .is_there = is_there,
    .open = open_pmix,
    .publish = publish,
    .get = get,
    .close = close_pmix,
};
