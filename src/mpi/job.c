/* SPDX-License-Identifier: Apache-2.0 */
/* The run under everything: how it starts and ends, and what its thread hears. */
#include "mpi/job.h"

#include "mpi/stuck.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START_NS (60 * COP_SEC)
#define LEAVE_NS (5 * COP_SEC)

struct cop__job cop__job = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local char error_text[300];

const char *COP_Comm_error(void) { return error_text; }

void cop__mpi_clear_error(void) { error_text[0] = '\0'; }

int cop__mpi_fail(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return error;
}

int cop__mpi_fail_with(int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error > 0)
        MPI_Error_string(error, text, &length);
    return cop__mpi_fail(error, "%s: %s", what, error > 0 ? text : cop_strerror(error));
}

/* ---- who has failed -------------------------------------------------------------- */

bool *cop__job_failed(void)
{
    bool *copy = malloc((size_t)cop__job.size * sizeof *copy);
    if (copy == NULL) {
        cop__mpi_fail(COP_ENOMEM, "no memory");
        return NULL;
    }
    pthread_mutex_lock(&cop__job.mutex);
    memcpy(copy, cop__job.failed, (size_t)cop__job.size * sizeof *copy);
    pthread_mutex_unlock(&cop__job.mutex);
    return copy;
}

bool cop__job_is_failed(cop_id id)
{
    pthread_mutex_lock(&cop__job.mutex);
    bool is_failed = cop__job.failed[id];
    pthread_mutex_unlock(&cop__job.mutex);
    return is_failed;
}

int cop__job_check_in(void)
{
    pthread_mutex_lock(&cop__job.mutex);
    int why = cop__job.why_out;
    pthread_mutex_unlock(&cop__job.mutex);
    return why ? cop__mpi_fail_with(why, "this process is cut off from the others") : 0;
}

void cop__job_mark_failed(const struct cop_agreed *agreed)
{
    pthread_mutex_lock(&cop__job.mutex);
    for (uint32_t i = 0; i < agreed->failed.count; i++)
        cop__job.failed[agreed->failed.items[i]] = true;
    pthread_mutex_unlock(&cop__job.mutex);
}

/* ---- what was revoked ------------------------------------------------------------ */

/* A message of a revocation that is under way, or waits until there is room for it. */
struct cop__letter {
    struct cop__letter *next;
    uint64_t number;
    cop_id to;
};
static struct cop__letter *waiting; /* under the mutex */

/* One for `to` that there was no room for; taken out of the list. */
static struct cop__letter *take_waiting(cop_id to)
{
    struct cop__letter **link = &waiting;
    pthread_mutex_lock(&cop__job.mutex);
    while (*link != NULL && (*link)->to != to)
        link = &(*link)->next;
    struct cop__letter *letter = *link;
    if (letter != NULL)
        *link = letter->next;
    pthread_mutex_unlock(&cop__job.mutex);
    return letter;
}

static void keep_waiting(struct cop__letter *letter)
{
    pthread_mutex_lock(&cop__job.mutex);
    letter->next = waiting;
    waiting = letter;
    pthread_mutex_unlock(&cop__job.mutex);
}

static void on_told(void *context, int status);

/* What cop_send says; but for COP_EAGAIN the letter is its own, or gone. */
static int try_to_send(struct cop__letter *letter)
{
    int error = cop_send(cop__job.run, letter->to, &letter->number,
                         sizeof letter->number, on_told, letter);
    if (error && error != COP_EAGAIN)
        free(letter);
    return error;
}

/* On the library's thread: there is no room while as many are under way to the same one as may
 * be, so one of them makes room. Whether another one is now under way. */
static bool send_letter(struct cop__letter *letter)
{
    int error = try_to_send(letter);
    if (error == COP_EAGAIN)
        keep_waiting(letter);
    return error == 0 || error == COP_EAGAIN;
}

/* On the library's thread. Somebody who is silent is told until it is known what became of
 * it: who is no member any more needs not be told. */
static void on_told(void *context, int status)
{
    struct cop__letter *letter = context;
    cop_id to = letter->to;
    if (status == COP_EAGAIN) {
        keep_waiting(letter);
        return;
    }
    if (status != COP_ETIMEDOUT)
        free(letter);
    else if (send_letter(letter))
        return;
    while ((letter = take_waiting(to)) != NULL && !send_letter(letter))
        continue;
}

/* Out of memory: the others hear of it from those who were told, or agree on it as they must
 * anyway. */
struct cop__letter *cop__job_write(const struct cop__attached *at,
                                   struct cop__letter *before)
{
    cop_id self = cop_self(cop__job.run);
    for (int i = 0; i < at->size; i++) {
        struct cop__letter *letter = at->ids[i] != self ? malloc(sizeof *letter) : NULL;
        if (letter == NULL)
            continue;
        *letter = (struct cop__letter){
            .next = before, .number = at->number, .to = at->ids[i]};
        before = letter;
    }
    return before;
}

/* On the library's thread. */
static void send_letters(struct cop__letter *letters)
{
    struct cop__letter *next;
    for (; letters != NULL; letters = next) {
        next = letters->next;
        send_letter(letters);
    }
}

void cop__job_send(struct cop__letter *letters)
{
    const struct timespec moment = {.tv_nsec = COP_MSEC};
    struct cop__letter *next;
    for (; letters != NULL; letters = next) {
        next = letters->next;
        while (try_to_send(letters) == COP_EAGAIN)
            nanosleep(&moment, NULL);
    }
}

static void add_early(uint64_t number, cop_id teller)
{
    struct cop__hearsay *grown =
        realloc(cop__job.early, (cop__job.early_count + 1) * sizeof *cop__job.early);
    if (grown == NULL)
        return;
    cop__job.early = grown;
    grown[cop__job.early_count++] = (struct cop__hearsay){number, teller};
}

static void on_message(void *context, struct cop_run *run,
                       const struct cop_message *message)
{
    uint64_t number;
    (void)context, (void)run;
    if (message->length != sizeof number)
        return;
    memcpy(&number, message->bytes, sizeof number);
    pthread_mutex_lock(&cop__job.mutex);
    struct cop__attached *at = cop__job.list;
    while (at != NULL && at->number != number)
        at = at->next;
    if (at != NULL && !at->is_revoked) {
        at->is_revoked = true;
        at->teller = message->from;
    }
    /* One that was detached has a number below the counter: that is over. */
    if (at == NULL && cop__mpi_counter_of(number) > cop__job.counter)
        add_early(number, message->from);
    pthread_mutex_unlock(&cop__job.mutex);
}

/* ---- who is there ---------------------------------------------------------------- */

/* Who told me may have told nobody else before it died. */
static struct cop__letter *pass_on(const bool *failed)
{
    struct cop__letter *letters = NULL;
    for (struct cop__attached *at = cop__job.list; at != NULL; at = at->next)
        if (at->is_revoked && failed[at->teller]) {
            at->teller = cop_self(cop__job.run);
            letters = cop__job_write(at, letters);
        }
    return letters;
}

static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct cop_member member;
    (void)context, (void)run, (void)old;
    pthread_mutex_lock(&cop__job.mutex);
    for (cop_id id = 0; id < (cop_id)cop__job.size; id++)
        if (cop_view_member(now, id, &member) == 0 && member.presence == COP_REMOVED)
            cop__job.failed[id] = true;
    struct cop__letter *letters = pass_on(cop__job.failed);
    cop__stuck_look(cop__job.failed);
    pthread_mutex_unlock(&cop__job.mutex);
    send_letters(letters);
}

/* Nobody here has ended it, or it does not matter any more: the others have taken it for dead. */
static void on_out(void *context, struct cop_run *run, int why)
{
    (void)context, (void)run;
    pthread_mutex_lock(&cop__job.mutex);
    cop__job.why_out = why;
    pthread_mutex_unlock(&cop__job.mutex);
    if (why != 0)
        cop__stuck_alone();
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
        return cop__mpi_fail(COP_EIO, "MPI_Bcast failed");
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
    struct cop_settings settings = {.size = sizeof settings,
                                    .on_view = on_view,
                                    .on_message = on_message,
                                    .on_out = on_out};
    struct cop_view *view;
    cop_boot_settings(with, &settings);
    cop__job.size = (int)settings.count;
    cop__job.failed = calloc(settings.count, sizeof *cop__job.failed);
    if (cop__job.failed == NULL)
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    int error =
        cop_start_thread(&settings, &cop__job.run, error_text, sizeof error_text);
    if (error)
        return error;
    error = cop_view_wait(cop__job.run, 0, START_NS, &view);
    if (error)
        return cop__mpi_fail_with(error, "the processes did not become members");
    cop_view_unref(view);
    return 0;
}

static void free_letters(void)
{
    struct cop__letter *next;
    for (; waiting != NULL; waiting = next) {
        next = waiting->next;
        free(waiting);
    }
}

void cop__job_set_counter(uint64_t counter)
{
    pthread_mutex_lock(&cop__job.mutex);
    cop__job.counter = counter;
    pthread_mutex_unlock(&cop__job.mutex);
}

void cop__job_end(void)
{
    cop__pool_free();
    if (cop__job.run != NULL) {
        cop_leave_wait(cop__job.run, LEAVE_NS);
        cop_free(cop__job.run);
    }
    if (cop__mpi_is_running())
        MPI_Group_free(&cop__job.all);
    free_letters();
    free(cop__job.failed);
    free(cop__job.early);
    cop__job = (struct cop__job){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

int cop__job_begin(MPI_Comm comm)
{
    struct cop_boot *with = NULL;
    int error = cop__mpi_check();
    if (error)
        return error;
    error = boot(comm, &with);
    if (error)
        return error;
    cop__job.first = comm;
    MPI_Comm_group(comm, &cop__job.all);
    error = start_run(with);
    cop_boot_free(with);
    if (error)
        cop__job_end();
    return error;
}
