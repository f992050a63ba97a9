/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The temperature of a plate whose upper edge is hot, by Jacobi's method. Each rank has some rows,
 * and a copy of those of the rank before it, as of the last checkpoint that all agreed on. When
 * processes are killed spares take their ranks, get the rows from the copy, and everybody goes on
 * from that checkpoint. The end is compared with what one process computes alone, bit by bit.
 *
 *   mpirun --enable-recovery --mca pml ob1 --mca btl tcp,self -n 8 jacobi SPARES [RANK@STEP...]
 *
 * RANK, of MPI_COMM_WORLD, kills itself in STEP, if it works by then.
 */
#include <coppice/error.h>
#include <coppice/mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 96, COLUMNS = 64, STEPS = 120, EVERY = 10 };

struct plate {
    MPI_Comm work;
    int rank, size;
    int step, restarts;
    double *now, *next; /* my rows, with one of each neighbour around them */
    /* Checkpoints: the agreed one, and the one that is being made. */
    int slot, saved; /* -1: this process has none */
    double *own[2], *copy[2];
};

static void check(int error)
{
    if (error == 0)
        return;
    fprintf(stderr, "jacobi: %s\n", COP_Comm_error());
    _Exit(1);
}

static int first_row(const struct plate *plate, int rank)
{
    return ROWS * rank / plate->size;
}

static int rows_of(const struct plate *plate, int rank)
{
    return first_row(plate, rank + 1) - first_row(plate, rank);
}

static double *make_rows(int rows)
{
    double *made = calloc((size_t)rows * COLUMNS, sizeof *made);
    if (made == NULL)
        abort();
    return made;
}

/* ---- the method ------------------------------------------------------------------ */

static void relax(const double *now, double *next, int rows)
{
    for (int row = 1; row <= rows; row++)
        for (int i = row * COLUMNS + 1; i < (row + 1) * COLUMNS - 1; i++)
            next[i] =
                (now[i - 1] + now[i + 1] + now[i - COLUMNS] + now[i + COLUMNS]) / 4;
}

static void heat(double *row)
{
    for (int i = 0; i < COLUMNS; i++)
        row[i] = 100;
}

static void begin_rows(struct plate *plate)
{
    int rows = rows_of(plate, plate->rank);
    /* The old ones are not freed: MPI may still write to them. */
    plate->now = make_rows(rows + 2);
    plate->next = make_rows(rows + 2);
    if (plate->rank == 0) {
        heat(plate->now);
        heat(plate->next);
    }
}

/* One step; false if it was not done, because somebody is dead. */
static bool advance(struct plate *plate, int dies_in)
{
    int rows = rows_of(plate, plate->rank), count = 0;
    double *now = plate->now, *last = now + (size_t)rows * COLUMNS;
    MPI_Request requests[4];
    if (plate->rank > 0) {
        MPI_Irecv(now, COLUMNS, MPI_DOUBLE, plate->rank - 1, 0, plate->work,
                  &requests[count++]);
        MPI_Isend(now + COLUMNS, COLUMNS, MPI_DOUBLE, plate->rank - 1, 0, plate->work,
                  &requests[count++]);
    }
    if (plate->step == dies_in)
        raise(SIGKILL);
    if (plate->rank < plate->size - 1) {
        MPI_Irecv(last + COLUMNS, COLUMNS, MPI_DOUBLE, plate->rank + 1, 0, plate->work,
                  &requests[count++]);
        MPI_Isend(last, COLUMNS, MPI_DOUBLE, plate->rank + 1, 0, plate->work,
                  &requests[count++]);
    }
    if (COP_Comm_waitall(plate->work, count, requests) != 0)
        return false;
    relax(now, plate->next, rows);
    plate->now = plate->next;
    plate->next = now;
    plate->step++;
    return true;
}

/* ---- checkpoints ----------------------------------------------------------------- */

/* Mine to the right, where it is the copy; true if it got there, and I have that of the left. */
static bool save(struct plate *plate)
{
    int rows = rows_of(plate, plate->rank), size = plate->size;
    int left = (plate->rank + size - 1) % size, right = (plate->rank + 1) % size;
    int into = 1 - plate->slot;
    MPI_Request requests[2];
    plate->own[into] = make_rows(rows);
    plate->copy[into] = make_rows(rows_of(plate, left));
    memcpy(plate->own[into], plate->now + COLUMNS,
           (size_t)rows * COLUMNS * sizeof(double));
    MPI_Irecv(plate->copy[into], rows_of(plate, left) * COLUMNS, MPI_DOUBLE, left, 1,
              plate->work, &requests[0]);
    MPI_Isend(plate->own[into], rows * COLUMNS, MPI_DOUBLE, right, 1, plate->work,
              &requests[1]);
    return COP_Comm_waitall(plate->work, 2, requests) == 0;
}

static void commit(struct plate *plate)
{
    free(plate->own[plate->slot]);
    free(plate->copy[plate->slot]);
    plate->own[plate->slot] = plate->copy[plate->slot] = NULL;
    plate->slot = 1 - plate->slot;
    plate->saved = plate->step;
}

/* Which step all can begin from, by who has which checkpoint: `has` is one more, and 0 if none. */
static int find_step(const struct plate *plate, const uint64_t *has)
{
    int step = 0;
    for (int i = 0; i < plate->size; i++) {
        if (has[i] == 0 && has[(i + 1) % plate->size] == 0)
            return 0; /* the rows and their copy are lost: from the start */
        if (has[i] != 0)
            step = (int)has[i] - 1;
    }
    return step;
}

/* Whoever is new gets its rows from the right, and the copy that it keeps from the left. */
static bool hand_over(struct plate *plate, const uint64_t *has)
{
    int size = plate->size, left = (plate->rank + size - 1) % size, count = 0;
    int right = (plate->rank + 1) % size, rows = rows_of(plate, plate->rank);
    MPI_Request requests[2];
    double **own = &plate->own[plate->slot], **copy = &plate->copy[plate->slot];
    if (has[plate->rank] == 0) {
        *own = make_rows(rows);
        *copy = make_rows(rows_of(plate, left));
        MPI_Irecv(*own, rows * COLUMNS, MPI_DOUBLE, right, 2, plate->work,
                  &requests[count++]);
        MPI_Irecv(*copy, rows_of(plate, left) * COLUMNS, MPI_DOUBLE, left, 3,
                  plate->work, &requests[count++]);
    } else {
        if (has[left] == 0)
            MPI_Isend(*copy, rows_of(plate, left) * COLUMNS, MPI_DOUBLE, left, 2,
                      plate->work, &requests[count++]);
        if (has[right] == 0)
            MPI_Isend(*own, rows * COLUMNS, MPI_DOUBLE, right, 3, plate->work,
                      &requests[count++]);
    }
    if (COP_Comm_waitall(plate->work, count, requests) != 0)
        return false;
    memcpy(plate->now + COLUMNS, *own, (size_t)rows * COLUMNS * sizeof(double));
    return true;
}

/* All, in a new communicator: back to the last checkpoint. False if again somebody is dead. */
static bool restore(struct plate *plate)
{
    int good = 1;
    MPI_Comm_rank(plate->work, &plate->rank);
    MPI_Comm_size(plate->work, &plate->size);
    uint64_t *has = calloc((size_t)plate->size, sizeof *has);
    if (has == NULL)
        abort();
    has[plate->rank] = (uint64_t)plate->saved + 1;
    check(COP_Comm_agree_words(plate->work, has, plate->size, MPI_MAX));
    begin_rows(plate);
    plate->step = find_step(plate, has);
    if (plate->step > 0)
        good = hand_over(plate, has);
    if (!good)
        COP_Comm_revoke(plate->work);
    free(has);
    check(COP_Comm_agree(plate->work, &good));
    if (good) {
        plate->saved = plate->step;
        printf("jacobi: rank %d: from step %d\n", plate->rank, plate->step);
    }
    return good;
}

static void recover(struct plate *plate)
{
    do {
        MPI_Comm old = plate->work;
        int error = COP_Comm_replace(old, &plate->work);
        if (error == COP_ENOENT) {
            fprintf(stderr, "jacobi: %s\n", COP_Comm_error());
            COP_Comm_exit(1);
        }
        check(error);
        check(COP_Comm_free(&old));
        plate->restarts++;
    } while (!restore(plate));
}

/* ---- the program ----------------------------------------------------------------- */

/* The steps up to the next checkpoint, and that; all of them or none. */
static void do_stretch(struct plate *plate, int dies_in)
{
    int good = 1;
    for (int i = 0; good && i < EVERY; i++)
        good = advance(plate, dies_in);
    good = good && save(plate);
    if (!good)
        COP_Comm_revoke(plate->work); /* nobody waits for me */
    check(COP_Comm_agree(plate->work, &good));
    if (good)
        commit(plate);
    else
        recover(plate);
}

static bool is_right(const struct plate *plate)
{
    double *now = make_rows(ROWS + 2), *next = make_rows(ROWS + 2), *swap;
    heat(now);
    heat(next);
    for (int step = 0; step < STEPS; step++) {
        relax(now, next, ROWS);
        swap = now, now = next, next = swap;
    }
    bool same =
        memcmp(plate->now + COLUMNS,
               now + (size_t)(first_row(plate, plate->rank) + 1) * COLUMNS,
               (size_t)rows_of(plate, plate->rank) * COLUMNS * sizeof *now) == 0;
    free(now);
    free(next);
    return same;
}

/* The step in which this process dies; -1: it does not. */
static int find_death(char **arguments, int me)
{
    int rank, step;
    for (; *arguments != NULL; arguments++)
        if (sscanf(*arguments, "%d@%d", &rank, &step) == 2 && rank == me)
            return step;
    return -1;
}

int main(int argc, char **argv)
{
    struct plate plate = {.saved = -1};
    int me, rank;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    check(COP_Comm_attach_spares(MPI_COMM_WORLD, argc > 1 ? atoi(argv[1]) : 0,
                                 &plate.work));
    int dies_in = argc > 2 ? find_death(argv + 2, me) : -1;
    if (plate.work == MPI_COMM_NULL) {
        check(COP_Comm_spare_wait(&plate.work, &rank));
        if (plate.work == MPI_COMM_NULL)
            COP_Comm_exit(0); /* nobody needed me */
    }
    if (!restore(&plate))
        recover(&plate);
    while (plate.step < STEPS)
        do_stretch(&plate, dies_in);
    printf("jacobi: rank %d: %s after %d steps and %d restarts\n", plate.rank,
           is_right(&plate) ? "right" : "WRONG", plate.step, plate.restarts);
    COP_Comm_exit(0);
}
