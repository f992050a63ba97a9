/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libc has no function for these two; the structures are the kernel's. */
static int get(struct __user_cap_header_struct *header,
               struct __user_cap_data_struct data[2])
{
    return syscall(SYS_capget, header, data) == 0 ? 0 : -errno;
}

static int set(struct __user_cap_header_struct *header,
               const struct __user_cap_data_struct data[2])
{
    return syscall(SYS_capset, header, data) == 0 ? 0 : -errno;
}

int privileges_drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct now[2] = {{0}}, none[2] = {{0}};
    int error = get(&header, now);
    if (error)
        return error;
    if ((now[0].permitted | now[1].permitted) == 0)
        return 0;
    /* What the kernel does not know is refused with EINVAL, and was never there. */
    for (unsigned long i = 0; i < 64; i++)
        if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0 && errno != EINVAL &&
            errno != EPERM)
            return -errno;
    error = set(&header, none);
    if (error)
        return error;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 1 : -errno;
}
