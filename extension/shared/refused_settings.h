// Settings whose value was refused when the server started. PostgreSQL starts all the same and
// takes the default, where it would not start for a setting of its own. Events would go to other
// topics than meant, or be removed sooner: so the relay waits until the setting is corrected.
#pragma once

#include "for_relay.h"

namespace outbox
{

struct RefusedSetting
{
    char *name; // null: there is none
    bool in_file;
};

// Around the definition of the settings, while the library is preloaded. The relay calls the second
// one again, before roles and databases have set anything: what was corrected is forgotten.
void note_given_settings();
OUTBOX_FOR_RELAY void keep_refused_settings();

// The first from this number on that the server or the database has not given a value since, and
// the number after it.
OUTBOX_FOR_RELAY RefusedSetting next_refused_setting(int *number);

} // namespace outbox
