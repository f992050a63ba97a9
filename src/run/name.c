/* SPDX-License-Identifier: Apache-2.0 */
#include "run/name.h"

#include "run/text.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool cop__name_has(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '-' || c == '_' || c == '.' || c == ':';
}

int cop__name_check(const char *name, char *message, size_t size)
{
    size_t length = 0, digits = 0;
    while (cop__name_has(name[length]))
        digits += is_digit(name[length++]);
    if (name[length] == '\0' && length > digits && length <= COP__MEMBER_NAME_MAX)
        return 0;
    return cop__explain(message, size,
                        "'%.80s' cannot be a name: " COP__MEMBER_NAME_RULE, name);
}
