/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TLS_KEYS_H
#define COP_NET_TLS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The key of a cluster, and the file that holds it.
 *
 *   # what it is for
 *   use 64 hexadecimal digits
 *   next 64 hexadecimal digits        (or former; or neither)
 *
 * Whoever connects proves itself with the key to `use`; whoever is connected to accepts
 * all keys of its file. So a key is changed in three steps, each of which every member
 * must have taken before anybody takes the next:
 *
 *   use A           ->  use A, next B      everybody accepts B, nobody uses it
 *   use A, next B   ->  use B, former A    some use B, some still A; all accept both
 *   use B, former A ->  use B              nobody uses A any more, nobody accepts it
 */
#define COP__KEY_SIZE 32u
#define COP__KEY_ID_LENGTH 16u

struct cop__key {
    uint8_t bytes[COP__KEY_SIZE];
    /* What it is called, in logs and on the wire: part of a digest of it. */
    char id[COP__KEY_ID_LENGTH + 1];
};

enum cop__keys_step {
    COP__KEYS_ALONE,  /* only `use` */
    COP__KEYS_NEXT,   /* `other` will be used */
    COP__KEYS_FORMER, /* `other` was used */
};

struct cop__keys {
    enum cop__keys_step step;
    struct cop__key use, other;
};

/* A new key. 0, or COP_EIO without random numbers. */
int cop__key_make(struct cop__key *out);

/*
 * Opens a file that only its owner, who is this user or root, may read; what is looked at is
 * what is read from. A descriptor, or COP_EINVAL (it is no file), COP_EIO, COP_EREFUSED, with
 * a sentence that begins with the path.
 */
int cop__secret_open(const char *path, char *message, size_t size);
/*
 * Reads a file. 0, or COP_EINVAL, COP_EIO, COP_EREFUSED (others may read it, or it is
 * somebody else's) with a sentence that begins with the path.
 */
int cop__keys_read(const char *path, struct cop__keys *out, char *message, size_t size);
/*
 * Writes a file that only its owner can read. `is_new`: it must not be there yet;
 * otherwise it is replaced in one step. 0, or COP_EIO with a sentence.
 */
int cop__keys_write(const char *path, const struct cop__keys *keys, bool is_new,
                    char *message, size_t size);

/*
 * The same for a new file that goes with the processes that read it: nobody looks for it
 * after the machine has failed, so it is not waited for until it is on the disk.
 */
int cop__keys_write_brief(const char *path, const struct cop__keys *keys, char *message,
                          size_t size);

/* Takes the next of the three steps. 0, or COP_EIO without random numbers. */
int cop__keys_rotate(struct cop__keys *keys);

/* The key of this name; NULL if there is none. */
const struct cop__key *cop__keys_find(const struct cop__keys *keys, const char *id,
                                      size_t length);

/* So that they are not found in memory that somebody else gets. */
void cop__keys_wipe(struct cop__keys *keys);

#endif
