/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is forked finds data mapped where its parent had them, but the kernel leaves
 * out code, which can be mapped again when it runs. For a first handshake that is some thirty
 * faults, as costly as half of the handshake. It does not leave out a mapping of which one page
 * is the process's own. So one byte of each is written over with itself, the way a debugger
 * would: the mapping stays as it is, and can neither be written to nor read by anybody else.
 */
#include <fcntl.h>
#include <link.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "net/tls/tls.h"

struct search {
    int memory;
    uintptr_t code; /* somewhere in the library that is meant */
    bool is_done;
};

static bool holds(const struct dl_phdr_info *object, const ElfW(Phdr) * part,
                  uintptr_t code)
{
    uintptr_t start = object->dlpi_addr + part->p_vaddr;
    return part->p_type == PT_LOAD && code >= start && code - start < part->p_memsz;
}

static bool is_constant(const ElfW(Phdr) * part)
{
    return part->p_type == PT_LOAD && (part->p_flags & PF_W) == 0;
}

static bool own_page(int memory, uintptr_t address)
{
    char byte;
    return pread(memory, &byte, 1, (off_t)address) == 1 &&
           pwrite(memory, &byte, 1, (off_t)address) == 1;
}

static int on_object(struct dl_phdr_info *object, size_t size, void *context)
{
    struct search *search = context;
    bool is_meant = false;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum && !is_meant; i++)
        is_meant = holds(object, &object->dlpi_phdr[i], search->code);
    if (!is_meant)
        return 0;
    search->is_done = true;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (is_constant(&object->dlpi_phdr[i]) &&
            !own_page(search->memory, object->dlpi_addr + object->dlpi_phdr[i].p_vaddr))
            search->is_done = false;
    return 1;
}

bool cop__tls_before_fork(void)
{
    const uintptr_t codes[] = {(uintptr_t)SSL_do_handshake, (uintptr_t)EVP_PKEY_derive};
    struct search search = {.memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC)};
    bool is_done = search.memory >= 0;
    for (size_t i = 0; i < sizeof codes / sizeof *codes && is_done; i++) {
        search.code = codes[i];
        search.is_done = false;
        dl_iterate_phdr(on_object, &search);
        is_done = search.is_done;
    }
    if (search.memory >= 0)
        close(search.memory);
    return is_done;
}
