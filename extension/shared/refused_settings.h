// Settings whose value was refused when the server started. PostgreSQL starts all the same and
// takes the default, where it would not start for a setting of its own. Events would go to other
// topics than meant, or be removed sooner: so the relay waits until the setting is corrected.
#pragma once

#include "for_relay.h"

namespace outbox
{

struct RefusedSetting
{
    const char *name; // null: there is none
    bool in_file;
    bool needs_restart; // of the server, to be corrected
};

// Around the definition of the settings, while the library is preloaded. The relay calls the second
// one again, before roles and databases have set anything.
void note_given_settings();
OUTBOX_FOR_RELAY void keep_refused_settings();

// The first from this number on that the server has the default of, and the number after it. Not
// those that were settled, nor what the server has been given since.
OUTBOX_FOR_RELAY RefusedSetting next_refused_setting(int *number);

// By the files as this process has read them last, a setting is refused still.
OUTBOX_FOR_RELAY void note_refused_setting();

// The one before this number was corrected or taken out of the configuration files: what is wrong
// with these later, by which they cannot be read, does not bring it back, nor does a value that a
// reload refuses. Lasts until the server restarts. False: the files were not read again since it
// was found in them, so that they may be half edited, and nothing is settled.
OUTBOX_FOR_RELAY bool settle_refused_setting(int number);

} // namespace outbox
