/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BOOT_HOST_H
#define COP_BOOT_HOST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Listens where the other processes of a job can connect to: on the loopback if all of them
 * are here, otherwise on the interface that COPPICE_INTERFACE names, or on the first that
 * is up. *fd and the text of the address ("tcp:192.0.2.7:40123"); or COP_EINVAL, COP_EIO with
 * a sentence.
 */
int cop__boot_listen(bool is_local, int *fd, char *address, size_t address_size,
                     char *message, size_t size);

#endif
