/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_MPI_JOB_H
#define COPPICE_MPI_JOB_H

/*
 * One run for the process, of all processes of the first communicator, and a group of
 * agreements for each thing that is attached: communicators, windows and files. Ids are ranks
 * of the first communicator.
 *
 * The library's thread marks who has failed and what was revoked, under one mutex; all else
 * belongs to the caller.
 */
#include <coppice/coppice.h>
#include <coppice/mpi.h>
#include <pthread.h>

/* Something that was attached. What it is not is the null handle of its kind. */
struct cop__attached {
    struct cop__attached *next;
    MPI_Comm comm;
    MPI_Win win;
    MPI_File file;
    uint64_t number; /* of its group of agreements, and in messages */
    int size;
    cop_id *ids; /* by rank */
    bool *acked; /* by rank: who has failed, and this process said that it knows */
    /* Under the mutex. */
    bool is_revoked;
    cop_id teller; /* who told */
};

/* A revocation of what is not attached here yet. */
struct cop__hearsay {
    uint64_t number;
    cop_id teller;
};

/* Who may take over for whom, the same at all who live: it changes by agreements only. */
struct cop__pool {
    uint64_t number; /* of the agreements of all processes; 0: there are no spares */
    uint64_t work;   /* the communicator that they are for */
    bool is_over;
    int size, spare_count;
    cop_id *places; /* by rank of work */
    cop_id *spares; /* that wait */
};

struct cop__job {
    struct cop_run *run;
    MPI_Comm first; /* MPI_COMM_NULL: it was given back to MPI */
    MPI_Group all;  /* of the first communicator: its ranks are ids */
    int size;
    uint64_t counter; /* numbers come from it; larger with each */
    struct cop__pool pool;
    pthread_mutex_t mutex;
    struct cop__attached *list; /* the first one is its last; changed under the mutex */
    /* Under the mutex. */
    int why_out;  /* the run is over, and this is why; 0: it is not */
    bool *failed; /* by id */
    struct cop__hearsay *early;
    size_t early_count;
};
extern struct cop__job cop__job;

/* Sets what COP_Comm_error says; returns `error`. */
int cop__mpi_fail(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with the words that MPI, or we, have for the error. */
int cop__mpi_fail_with(int error, const char *what);
void cop__mpi_clear_error(void);

/* Whether those who are left may go on after a death with this MPI. */
int cop__mpi_check(void);
/* Makes the processes of `comm` members of one cluster; on failure nothing is left of it. */
int cop__job_begin(MPI_Comm comm);
void cop__job_end(void);
void cop__job_set_counter(uint64_t counter);

/* A copy of who is known to have failed, by id; NULL: no memory. */
bool *cop__job_failed(void);
bool cop__job_is_failed(cop_id id);
/* 0; or why this process is no member any more, though nobody has ended it here, with an error set.
 * It hears of nothing then. */
int cop__job_check_in(void);
/* Takes over what was agreed on. */
void cop__job_mark_failed(const struct cop_agreed *agreed);
/*
 * Messages to all others of it that it was revoked, in front of those `before`. They are sent
 * without the mutex, and freed when it is known what became of them. Sending is for the caller's
 * thread: what the library's thread has not looked at yet is limited, for all receivers together, and
 * this waits until there is room. If one of them were left until another to the same receiver has
 * arrived, as may be done on that thread, there might be none.
 */
struct cop__letter;
struct cop__letter *cop__job_write(const struct cop__attached *at,
                                   struct cop__letter *before);
void cop__job_send(struct cop__letter *letters);

/* NULL, with an error set, if it is not attached. */
struct cop__attached *cop__mpi_find(MPI_Comm comm);
/* The same; also if `place`, of what is to be read or written, is NULL. */
struct cop__attached *cop__mpi_find_with(MPI_Comm comm, const void *place);
/* COP_EINVAL, with an error set, if it is NULL. */
int cop__mpi_check_place(const void *place);
/* Whether MPI can be called: it was initialized, and not finalized. */
bool cop__mpi_is_running(void);
/* Whether it can be attached: MPI runs, and it is one communicator of one group. */
int cop__mpi_check_comm(MPI_Comm comm);
/* Takes it out when it is given back to MPI (freed.c); and not any more. */
int cop__mpi_watch(struct cop__attached *at);
void cop__mpi_unwatch(struct cop__attached *at);
/*
 * Attaches what `like` names; `counter` is larger than all that its members had. On failure
 * it is not attached.
 */
int cop__mpi_add(const struct cop__attached *like, MPI_Group group, uint64_t counter);
int cop__mpi_add_comm(MPI_Comm comm, uint64_t counter);
/* Takes it out, and frees it. */
void cop__mpi_remove(struct cop__attached *at);
/* A counter that is larger than those of all members, by MPI: while everybody lives. */
int cop__mpi_next_counter(MPI_Comm comm, uint64_t *out);
/* A number that none of the members has seen. */
uint64_t cop__mpi_number(uint64_t counter, cop_id least);
uint64_t cop__mpi_counter_of(uint64_t number);
/* Makes the group of agreements `number` of these ids. */
int cop__mpi_make_group(uint64_t number, const cop_id *ids, int size);

/* An agreement of group `number` on words; `failed`, if it is not NULL, is by id. */
int cop__mpi_agree(uint64_t number, enum cop_agree_op op, uint64_t *words,
                   uint32_t count, bool *failed, uint64_t *which);
/* Those of `at` for whom `is_in`, by id, says so. */
int cop__mpi_select(const struct cop__attached *at, const bool *is_in, MPI_Group *out);
/* Who of it is known here to have failed; who is agreed to have. */
int cop__mpi_validate(const struct cop__attached *at, MPI_Group *failed);
int cop__mpi_validate_all(const struct cop__attached *at, MPI_Group *failed);

/*
 * The end of the work: tells the spares, with everybody else who works. At once if there are
 * none, or if it was done.
 */
int cop__pool_end(void);
void cop__pool_free(void);

#endif
