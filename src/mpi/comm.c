/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run for the process, of all processes of the first communicator, and a group of
 * agreements for each communicator. Ids are ranks of the first one.
 *
 * The library's thread marks who has failed and what was revoked, under one mutex; all else
 * belongs to the caller.
 */
#include <coppice/coppice.h>
#include <coppice/mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Somebody may compute for long before it calls: that is no failure. */
#define PATIENCE_NS (UINT64_C(1000) * 24 * 3600 * COP_SEC)
#define START_NS (60 * COP_SEC)
#define LEAVE_NS (5 * COP_SEC)
/* Numbers of communicators that were made by shrinking. */
#define SHRUNK (UINT64_C(1) << 63)

struct attached {
    struct attached *next;
    MPI_Comm comm;
    uint64_t number; /* of its group of agreements, and in messages */
    int size;
    cop_id *ids; /* by rank */
};

static struct {
    struct cop_run *run;
    MPI_Group all;
    int size;
    uint32_t made; /* communicators that this process gave numbers to */
    struct attached *list;
    /* Under the mutex. */
    bool *failed;      /* by id */
    uint64_t *revoked; /* numbers */
    size_t revoked_count;
} job;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local char error_text[300];

const char *COP_Comm_error(void) { return error_text; }

static int fail(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int fail(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return error;
}

/* An error of MPI, or of ours, in words. */
static int fail_with(int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error > 0)
        MPI_Error_string(error, text, &length);
    return fail(error, "%s: %s", what, error > 0 ? text : cop_strerror(error));
}

static struct attached *find(MPI_Comm comm)
{
    struct attached *at = job.list;
    while (at != NULL && at->comm != comm)
        at = at->next;
    if (at == NULL)
        fail(COP_EINVAL, "this communicator is not attached");
    return at;
}

/* ---- what the library's thread hears --------------------------------------------- */

static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct cop_member member;
    (void)context, (void)run, (void)old;
    pthread_mutex_lock(&mutex);
    for (cop_id id = 0; id < (cop_id)job.size; id++)
        if (cop_view_member(now, id, &member) == 0 && member.presence == COP_REMOVED)
            job.failed[id] = true;
    pthread_mutex_unlock(&mutex);
}

static void mark_revoked(uint64_t number)
{
    pthread_mutex_lock(&mutex);
    uint64_t *grown =
        realloc(job.revoked, (job.revoked_count + 1) * sizeof *job.revoked);
    if (grown != NULL) {
        job.revoked = grown;
        job.revoked[job.revoked_count++] = number;
    }
    pthread_mutex_unlock(&mutex);
}

static bool is_revoked(uint64_t number)
{
    bool found = false;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < job.revoked_count; i++)
        found |= job.revoked[i] == number;
    pthread_mutex_unlock(&mutex);
    return found;
}

static void on_message(void *context, struct cop_run *run,
                       const struct cop_message *message)
{
    uint64_t number;
    (void)context, (void)run;
    if (message->length != sizeof number)
        return;
    memcpy(&number, message->bytes, sizeof number);
    if (!is_revoked(number))
        mark_revoked(number);
}

/* ---- the first communicator ------------------------------------------------------ */

/* Whether those who are left may go on after a death. */
static int check_mpi(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    const char *recovery = getenv("OMPI_MCA_orte_enable_recovery");
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    if (strncmp(version, "Open MPI", 8) != 0)
        return fail(COP_EREFUSED, "%.60s ends the job when a process is killed",
                    version);
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL)
        return fail(COP_EREFUSED, "not started by mpirun: other launchers end an MPI "
                                  "job when a process of it is killed");
    if (recovery == NULL || strcmp(recovery, "0") == 0)
        return fail(COP_EREFUSED, "mpirun ends the job when a process is killed: start "
                                  "it with mpirun --enable-recovery");
    return 0;
}

static int gather(void *context, const char word[COP_BOOT_WORD_MAX],
                  char (*words)[COP_BOOT_WORD_MAX])
{
    MPI_Comm comm = *(MPI_Comm *)context;
    int error = MPI_Allgather(word, COP_BOOT_WORD_MAX, MPI_CHAR, words,
                              COP_BOOT_WORD_MAX, MPI_CHAR, comm);
    return error == MPI_SUCCESS ? 0 : COP_EIO;
}

static bool is_one_host(MPI_Comm comm, int size)
{
    MPI_Comm here;
    int count = 0;
    if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) !=
        MPI_SUCCESS)
        return false;
    MPI_Comm_size(here, &count);
    MPI_Comm_free(&here);
    return count == size;
}

static int boot(MPI_Comm comm, struct cop_boot **out)
{
    int rank, size;
    char name[64];
    struct timespec now;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, sizeof name, "%ld-%lld-%ld", (long)getpid(), (long long)now.tv_sec,
             now.tv_nsec);
    if (MPI_Bcast(name, sizeof name, MPI_CHAR, 0, comm) != MPI_SUCCESS)
        return fail(COP_EIO, "MPI_Bcast failed");
    const struct cop_boot_means means = {.rank = (uint32_t)rank,
                                         .size = (uint32_t)size,
                                         .is_local = is_one_host(comm, size),
                                         .job = name,
                                         .gather = gather,
                                         .context = &comm};
    return cop_boot_by(&means, out, error_text, sizeof error_text);
}

static int start_run(struct cop_boot *with)
{
    struct cop_settings settings = {
        .size = sizeof settings, .on_view = on_view, .on_message = on_message};
    struct cop_view *view;
    cop_boot_settings(with, &settings);
    job.size = (int)settings.count;
    job.failed = calloc(settings.count, sizeof *job.failed);
    if (job.failed == NULL)
        return fail(COP_ENOMEM, "no memory");
    int error = cop_start_thread(&settings, &job.run, error_text, sizeof error_text);
    if (error)
        return error;
    error = cop_view_wait(job.run, 0, START_NS, &view);
    if (error)
        return fail_with(error, "the processes did not become members");
    cop_view_unref(view);
    return 0;
}

static void stop_run(void)
{
    if (job.run != NULL) {
        cop_leave_wait(job.run, LEAVE_NS);
        cop_free(job.run);
        MPI_Group_free(&job.all);
    }
    free(job.failed);
    free(job.revoked);
    memset(&job, 0, sizeof job);
}

static int begin(MPI_Comm comm)
{
    struct cop_boot *with;
    int error = check_mpi();
    if (error)
        return error;
    error = boot(comm, &with);
    if (error)
        return error;
    MPI_Comm_group(comm, &job.all);
    error = start_run(with);
    cop_boot_free(with);
    if (error)
        stop_run();
    return error;
}

/* ---- communicators --------------------------------------------------------------- */

static int compare_lives(const void *a, const void *b)
{
    const struct cop_life *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* The ids of a communicator, by rank. */
static int list_ids(struct attached *at)
{
    MPI_Group group;
    int *ranks = calloc((size_t)at->size, 2 * sizeof *ranks);
    at->ids = calloc((size_t)at->size, sizeof *at->ids);
    if (ranks == NULL || at->ids == NULL) {
        free(ranks);
        return fail(COP_ENOMEM, "no memory");
    }
    int *ids = ranks + at->size, error = 0;
    for (int i = 0; i < at->size; i++)
        ranks[i] = i;
    MPI_Comm_group(at->comm, &group);
    MPI_Group_translate_ranks(group, at->size, ranks, job.all, ids);
    for (int i = 0; i < at->size; i++) {
        if (ids[i] == MPI_UNDEFINED)
            error = fail(COP_EINVAL, "rank %d is not in the first communicator", i);
        at->ids[i] = (cop_id)ids[i];
    }
    MPI_Group_free(&group);
    free(ranks);
    return error;
}

static int make_group(const struct attached *at)
{
    struct cop_view *view = cop_view_current(job.run);
    struct cop_life *lives = calloc((size_t)at->size, sizeof *lives);
    struct cop_member member;
    int error = view && lives ? 0 : COP_ESTATE;
    for (int i = 0; error == 0 && i < at->size; i++) {
        error = cop_view_member(view, at->ids[i], &member);
        lives[i] = (struct cop_life){at->ids[i], member.incarnation};
    }
    if (error == 0) {
        qsort(lives, (size_t)at->size, sizeof *lives, compare_lives);
        const struct cop_agree_group group = {
            .number = at->number, .members = lives, .count = (uint32_t)at->size};
        error = cop_agree_group_create(job.run, NULL, &group);
    }
    free(lives);
    cop_view_unref(view);
    return error ? fail_with(error, "no agreements for this communicator") : 0;
}

static void forget(struct attached *at)
{
    free(at->ids);
    free(at);
}

static int add(MPI_Comm comm, uint64_t number)
{
    struct attached *at = calloc(1, sizeof *at);
    if (at == NULL)
        return fail(COP_ENOMEM, "no memory");
    *at = (struct attached){.next = job.list, .comm = comm, .number = number};
    MPI_Comm_size(comm, &at->size);
    int error = list_ids(at);
    if (error == 0)
        error = make_group(at);
    if (error) {
        forget(at);
        return error;
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    job.list = at;
    return 0;
}

int COP_Comm_attach(MPI_Comm comm)
{
    int rank;
    error_text[0] = '\0';
    for (const struct attached *at = job.list; at; at = at->next)
        if (at->comm == comm)
            return fail(COP_EEXIST, "this communicator is attached already");
    int error = job.run == NULL ? begin(comm) : 0;
    if (error)
        return error;
    /* Whoever is its rank 0 gives it a number that nobody else gives. */
    uint64_t number = (uint64_t)(cop_self(job.run) + 1) << 32 | ++job.made;
    MPI_Comm_rank(comm, &rank);
    error = MPI_Bcast(&number, 1, MPI_UINT64_T, 0, comm);
    if (error != MPI_SUCCESS)
        return fail_with(error, "MPI_Bcast");
    error = add(comm, number);
    if (error && job.list == NULL)
        stop_run();
    return error;
}

int COP_Comm_detach(MPI_Comm comm)
{
    struct attached *at = find(comm), **link = &job.list;
    if (at == NULL)
        return COP_EINVAL;
    if (at->next == NULL && job.list != at)
        return fail(COP_ESTATE, "the first communicator is detached last");
    while (*link != at)
        link = &(*link)->next;
    *link = at->next;
    cop_agree_group_free(job.run, at->number);
    forget(at);
    if (job.list == NULL)
        stop_run();
    return 0;
}

/* ---- agreeing -------------------------------------------------------------------- */

/* The ranks whose ids `is_in` names, as a group. */
static int make_mpi_group(const struct attached *at, const bool *is_in, MPI_Group *out)
{
    MPI_Group group;
    int *ranks = calloc((size_t)at->size, sizeof *ranks), count = 0;
    if (ranks == NULL)
        return fail(COP_ENOMEM, "no memory");
    for (int i = 0; i < at->size; i++)
        if (is_in[at->ids[i]])
            ranks[count++] = i;
    MPI_Comm_group(at->comm, &group);
    int error = MPI_Group_incl(group, count, ranks, out);
    MPI_Group_free(&group);
    free(ranks);
    return error == MPI_SUCCESS ? 0 : fail_with(error, "MPI_Group_incl");
}

int COP_Comm_validate(MPI_Comm comm, MPI_Group *failed)
{
    struct attached *at = find(comm);
    bool *copy = at ? malloc((size_t)job.size * sizeof *copy) : NULL;
    if (copy == NULL)
        return at ? fail(COP_ENOMEM, "no memory") : COP_EINVAL;
    pthread_mutex_lock(&mutex);
    memcpy(copy, job.failed, (size_t)job.size * sizeof *copy);
    pthread_mutex_unlock(&mutex);
    int error = make_mpi_group(at, copy, failed);
    free(copy);
    return error;
}

/* Agrees on who has failed; `is_in` is by id, for those or for the others. */
static int agree_on_failed(struct attached *at, bool *is_in, bool living,
                           uint64_t *number)
{
    struct cop_agreed agreed;
    int error = cop_validate_wait(job.run, at->number, PATIENCE_NS, &agreed);
    if (error)
        return fail_with(error, "no agreement on who has failed");
    for (int id = 0; id < job.size; id++)
        is_in[id] = living;
    for (uint32_t i = 0; i < agreed.failed.count; i++)
        is_in[agreed.failed.items[i]] = !living;
    *number = agreed.number;
    cop_agreed_free(&agreed);
    return 0;
}

int COP_Comm_validate_all(MPI_Comm comm, MPI_Group *failed)
{
    struct attached *at = find(comm);
    uint64_t number;
    bool *is_in = at ? calloc((size_t)job.size, sizeof *is_in) : NULL;
    if (is_in == NULL)
        return at ? fail(COP_ENOMEM, "no memory") : COP_EINVAL;
    int error = agree_on_failed(at, is_in, false, &number);
    if (error == 0 && failed != NULL)
        error = make_mpi_group(at, is_in, failed);
    free(is_in);
    return error;
}

static int agree_on_word(const struct attached *at, uint64_t *word)
{
    const struct cop_agree_call call = {.group = at->number,
                                        .op = COP_AGREE_AND,
                                        .value = word,
                                        .length = sizeof *word,
                                        .timeout_ns = PATIENCE_NS};
    struct cop_agreed agreed;
    int error = cop_agree_wait(job.run, &call, &agreed);
    if (error)
        return fail_with(error, "no agreement");
    *word = cop_agreed_word(&agreed, 0);
    cop_agreed_free(&agreed);
    return 0;
}

int COP_Comm_agree(MPI_Comm comm, int *flag)
{
    struct attached *at = find(comm);
    if (at == NULL)
        return COP_EINVAL;
    uint64_t word = (unsigned)*flag;
    int error = agree_on_word(at, &word);
    if (error == 0)
        *flag = (int)(unsigned)word;
    return error;
}

/* ---- shrinking ------------------------------------------------------------------- */

/* The same at all who agreed, and not the number of any other. */
static uint64_t number_after(uint64_t parent, uint64_t agreement)
{
    uint64_t x = parent * UINT64_C(0x9e3779b97f4a7c15) + agreement;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) | SHRUNK;
}

/* One attempt. `is_good`: all have it. */
static int try_shrink(struct attached *at, bool *is_in, MPI_Comm *out, bool *is_good,
                      uint64_t *number)
{
    MPI_Group group;
    int error = agree_on_failed(at, is_in, true, number);
    if (error == 0)
        error = make_mpi_group(at, is_in, &group);
    if (error)
        return error;
    *out = MPI_COMM_NULL;
    error = MPI_Comm_create_group(at->comm, group, (int)(*number & 0x3fff), out);
    MPI_Group_free(&group);
    uint64_t word = error == MPI_SUCCESS;
    int failed = agree_on_word(at, &word);
    *is_good = failed == 0 && word == 1;
    return failed;
}

int COP_Comm_shrink(MPI_Comm comm, MPI_Comm *out)
{
    struct attached *at = find(comm);
    MPI_Comm made = MPI_COMM_NULL;
    uint64_t number = 0;
    bool is_good = false;
    bool *is_in = at ? calloc((size_t)job.size, sizeof *is_in) : NULL;
    if (is_in == NULL)
        return at ? fail(COP_ENOMEM, "no memory") : COP_EINVAL;
    int error = 0;
    while (error == 0 && !is_good)
        error = try_shrink(at, is_in, &made, &is_good, &number);
    free(is_in);
    if (error == 0)
        error = add(made, number_after(at->number, number));
    if (error == 0)
        *out = made;
    return error;
}

/* ---- revoking -------------------------------------------------------------------- */

int COP_Comm_revoke(MPI_Comm comm)
{
    struct attached *at = find(comm);
    if (at == NULL)
        return COP_EINVAL;
    if (is_revoked(at->number))
        return 0;
    mark_revoked(at->number);
    for (int i = 0; i < at->size; i++) {
        cop_id id = at->ids[i];
        /* Who is no member any more needs not be told. */
        int error = id == cop_self(job.run)
                        ? 0
                        : cop_send_wait(job.run, id, &at->number, sizeof at->number);
        if (error != 0 && error != COP_EINVAL && error != COP_ELOST)
            return fail_with(error, "not everybody was told");
    }
    return 0;
}

int COP_Comm_is_revoked(MPI_Comm comm, int *flag)
{
    struct attached *at = find(comm);
    if (at == NULL)
        return COP_EINVAL;
    *flag = is_revoked(at->number);
    return 0;
}

/* ---- the end --------------------------------------------------------------------- */

/* Whether all who live agree that all live. */
static bool is_whole(void)
{
    struct attached *first = job.list;
    MPI_Group failed = MPI_GROUP_EMPTY;
    int count = 1;
    while (first != NULL && first->next != NULL)
        first = first->next;
    if (first == NULL)
        return true;
    if (COP_Comm_validate_all(first->comm, &failed) == 0)
        MPI_Group_size(failed, &count);
    if (failed != MPI_GROUP_EMPTY)
        MPI_Group_free(&failed);
    return count == 0;
}

void COP_Comm_exit(int status)
{
    bool whole = is_whole();
    while (job.list != NULL)
        COP_Comm_detach(job.list->comm);
    if (whole) {
        MPI_Finalize();
        exit(status);
    }
    fflush(NULL);
    _exit(status);
}
