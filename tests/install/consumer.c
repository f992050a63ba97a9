/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest user: compiled against the installed package, by tests/install/consumer.sh. */
#include <coppice/error.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    printf("%s: %s\n", cop_error_name(COP_ENOMEM), cop_strerror(COP_ENOMEM));
    return strcmp(cop_error_name(COP_ENOMEM), "COP_ENOMEM") == 0 ? 0 : 1;
}
