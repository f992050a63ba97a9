/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training that goes on when workers are killed, in the manner of torchrun: the data are divided
 * among the workers there are, each step sums up their gradients, and when one is lost the world is
 * made anew, with a spare in its place or, if there is none, smaller; all begin again from a step
 * that they agree on, and whoever is new gets the model from somebody who has it.
 *
 *   mpirun --enable-recovery --mca pml ob1 --mca btl tcp,self -n 6 elastic SPARES MINIMUM [RANK@STEP...]
 *
 * RANK, of MPI_COMM_WORLD, kills itself in STEP; with fewer than MINIMUM workers it ends. The
 * model is a line through points; the end is compared with what one process computes alone.
 */
#include <coppice/error.h>
#include <coppice/mpi.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { WEIGHTS = 4, SAMPLES = 240, STEPS = 80 };
#define NEW UINT64_MAX /* the step of one that has none */

struct model {
    double weights[WEIGHTS];
};

struct worker {
    MPI_Comm world;
    int rank, size, round;
    uint64_t step;
    /* After this step and after the one before it: nobody is more than one step ahead. */
    struct model models[2];
};

static void check(int error)
{
    if (error == 0)
        return;
    fprintf(stderr, "elastic: %s\n", COP_Comm_error());
    _Exit(1);
}

/* ---- the model ------------------------------------------------------------------- */

static double feature(int sample, int i) { return sin((sample + 1) * (i + 1.0)); }

static double target(int sample)
{
    double y = 0;
    for (int i = 0; i < WEIGHTS; i++)
        y += (i + 1) * feature(sample, i);
    return y;
}

/* Of the squares of the errors of these samples. */
static void add_gradient(const struct model *model, int from, int to, double *gradient)
{
    for (int sample = from; sample < to; sample++) {
        double error = -target(sample);
        for (int i = 0; i < WEIGHTS; i++)
            error += model->weights[i] * feature(sample, i);
        for (int i = 0; i < WEIGHTS; i++)
            gradient[i] += 2 * error * feature(sample, i) / SAMPLES;
    }
}

static void descend(struct model *model, const double *gradient)
{
    for (int i = 0; i < WEIGHTS; i++)
        model->weights[i] -= 0.3 * gradient[i];
}

/* One process, alone: sums in another order, so not the same bits. */
static bool is_right(const struct model *model)
{
    struct model alone = {{0}};
    for (int step = 0; step < STEPS; step++) {
        double gradient[WEIGHTS] = {0};
        add_gradient(&alone, 0, SAMPLES, gradient);
        descend(&alone, gradient);
    }
    for (int i = 0; i < WEIGHTS; i++)
        if (!(fabs(model->weights[i] - alone.weights[i]) < 1e-9))
            return false;
    return true;
}

/* ---- the world ------------------------------------------------------------------- */

/* All go back to the step that the last of them has done; who is new gets the model. */
static bool agree_on_step(struct worker *worker)
{
    /* The least step, and the least rank that has one. */
    uint64_t words[] = {worker->step,
                        worker->step == NEW ? NEW : (uint64_t)worker->rank};
    check(COP_Comm_agree_words(worker->world, words, 2, MPI_MIN));
    worker->step = words[0] == NEW ? 0 : words[0];
    if (words[0] == NEW)
        return true; /* the very beginning */
    MPI_Request request;
    /* Its own, and not freed: MPI may write to it even if this comes to nothing. */
    struct model *model = malloc(sizeof *model);
    if (model == NULL)
        abort();
    *model = worker->models[worker->step % 2];
    if (MPI_Ibcast(model->weights, WEIGHTS, MPI_DOUBLE, (int)words[1], worker->world,
                   &request) != MPI_SUCCESS ||
        COP_Comm_waitall(worker->world, 1, &request) != 0)
        return false;
    worker->models[worker->step % 2] = *model;
    free(model);
    return true;
}

static bool enter(struct worker *worker)
{
    MPI_Comm_rank(worker->world, &worker->rank);
    MPI_Comm_size(worker->world, &worker->size);
    uint64_t before = worker->step, round = (uint64_t)worker->round;
    int good = agree_on_step(worker);
    if (!good)
        COP_Comm_revoke(worker->world);
    check(COP_Comm_agree(worker->world, &good));
    if (!good) {
        worker->step = before; /* what it has, for the next attempt */
        return false;
    }
    check(COP_Comm_agree_words(worker->world, &round, 1, MPI_MAX));
    worker->round = (int)round;
    printf("elastic: round %d: rank %d of %d, from step %llu\n", worker->round,
           worker->rank, worker->size, (unsigned long long)worker->step);
    return true;
}

/* A spare in the place of who was lost; or without it. */
static void change_world(struct worker *worker)
{
    MPI_Comm old = worker->world;
    int error = COP_Comm_replace(old, &worker->world);
    if (error == COP_ENOENT || error == COP_ESTATE)
        error = COP_Comm_shrink(old, &worker->world);
    check(error);
    check(COP_Comm_free(&old));
    worker->round++;
}

static void meet(struct worker *worker, int minimum)
{
    do {
        int size;
        change_world(worker);
        MPI_Comm_size(worker->world, &size);
        if (size < minimum) {
            printf("elastic: %d workers are left, of at least %d\n", size, minimum);
            COP_Comm_exit(1);
        }
    } while (!enter(worker));
}

/* ---- the loop -------------------------------------------------------------------- */

static bool do_step(struct worker *worker, int dies_in)
{
    const struct model *model = &worker->models[worker->step % 2];
    struct model *next = &worker->models[(worker->step + 1) % 2];
    MPI_Request request;
    /* Mine, and that of all; kept if this comes to nothing, for MPI may still write to it. */
    double(*gradients)[WEIGHTS] = calloc(2, sizeof *gradients);
    if (gradients == NULL)
        abort();
    add_gradient(model, SAMPLES * worker->rank / worker->size,
                 SAMPLES * (worker->rank + 1) / worker->size, gradients[0]);
    if (worker->step == (uint64_t)dies_in)
        raise(SIGKILL);
    if (MPI_Iallreduce(gradients[0], gradients[1], WEIGHTS, MPI_DOUBLE, MPI_SUM,
                       worker->world, &request) != MPI_SUCCESS ||
        COP_Comm_waitall(worker->world, 1, &request) != 0)
        return false;
    *next = *model;
    descend(next, gradients[1]);
    free(gradients);
    worker->step++;
    return true;
}

static int find_death(char **arguments, int me)
{
    int rank, step;
    for (; *arguments != NULL; arguments++)
        if (sscanf(*arguments, "%d@%d", &rank, &step) == 2 && rank == me)
            return step;
    return -1;
}

/* Until all have done all steps: whoever is done first stays until the others are, too. */
static void train(struct worker *worker, int minimum, int dies_in)
{
    for (;;) {
        int good = 1;
        while (good && worker->step < STEPS)
            good = do_step(worker, dies_in);
        if (!good)
            COP_Comm_revoke(worker->world);
        check(COP_Comm_agree(worker->world, &good));
        if (good)
            return;
        meet(worker, minimum);
    }
}

int main(int argc, char **argv)
{
    static struct worker worker;
    int me, rank;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    if (argc < 3) {
        fprintf(stderr, "elastic: it takes SPARES MINIMUM [RANK@STEP...]\n");
        _Exit(2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    check(COP_Comm_attach_spares(MPI_COMM_WORLD, atoi(argv[1]), &worker.world));
    if (worker.world == MPI_COMM_NULL)
        check(COP_Comm_spare_wait(&worker.world, &rank));
    if (worker.world == MPI_COMM_NULL)
        COP_Comm_exit(0); /* nobody needed me */
    int minimum = atoi(argv[2]), dies_in = find_death(argv + 3, me);
    worker.step = NEW;
    if (!enter(&worker))
        meet(&worker, minimum);
    train(&worker, minimum, dies_in);
    printf("elastic: rank %d of %d: %s after %llu steps\n", worker.rank, worker.size,
           is_right(&worker.models[worker.step % 2]) ? "right" : "WRONG",
           (unsigned long long)worker.step);
    COP_Comm_exit(0);
}
