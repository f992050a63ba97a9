/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_ADDRESS_H
#define COP_RUN_ADDRESS_H

#include "net/tcp/driver.h"

/*
 * Addresses as text: "unix:PATH" or "tcp:HOST:PORT", where HOST is a number (127.0.0.1 or
 * [::1]). Relative paths are below `directory`. `least` is the smallest port: 0 where any
 * that is free will do. COP_EINVAL with a sentence.
 */
int cop__address_parse(const char *text, const char *directory, uint16_t least,
                       struct cop__address *out, char *message, size_t size);

/* The text of an address; as snprintf. */
int cop__address_print(const struct cop__address *address, char *out, size_t size);

bool cop__address_is_unix(const struct cop__address *address);

/* Longest text, with the 0. */
#define COP__ADDRESS_TEXT (COP_ADDRESS_MAX + 1)

#endif
