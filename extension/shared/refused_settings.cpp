#include "refused_settings.h"
#include "shared_state.h"

#include "extension/server/pg_settings.h"

extern "C"
{
#include "utils/timestamp.h"
}

namespace outbox
{

namespace
{

struct Given
{
    const char *name;
    bool in_file;
    bool defined; // and not a name that nobody knows
    bool refused_at_start;
    bool refused; // as far as the server's configuration of now goes
};

// Those with a value when the server started; more than there are settings. A bit of
// SharedState::settled_settings for each.
constexpr int kMost = 64;
Given given[kMost];
int given_count = 0;

// When this process had read the files by which it has found one refused last; 0: it has not.
TimestampTz refused_as_of = 0;

const config_generic *
find_setting(const char *name)
{
    int count;
    config_generic **settings = all_settings(&count);
    for (int i = 0; i < count; i++)
        if (pg_strcasecmp(settings[i]->name, name) == 0)
            return settings[i];
    return nullptr;
}

// What a role or the database sets says nothing of what the server has; nor does what the relay
// has put in the place of a role's, which is what the server had when it started.
bool
has_default(const Given &setting)
{
    switch (find_setting(setting.name)->source)
    {
    case PGC_S_DEFAULT:
        return true;
    case PGC_S_GLOBAL:
    case PGC_S_DATABASE:
    case PGC_S_USER:
    case PGC_S_DATABASE_USER:
    case PGC_S_OVERRIDE:
        return setting.refused;
    default:
        return false;
    }
}

bool
is_settled(int number)
{
    SharedState *shared = shared_state();
    return shared != nullptr && (pg_atomic_read_u64(&shared->settled_settings) >> number & 1) != 0;
}

} // namespace

void
note_given_settings()
{
    int count;
    config_generic **settings = all_settings(&count);
    const MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
    for (int i = 0; i < count && given_count < kMost; i++)
        if (pg_strncasecmp(settings[i]->name, "outbox.", strlen("outbox.")) == 0 &&
            (settings[i]->flags & GUC_CUSTOM_PLACEHOLDER) != 0)
            given[given_count++] = {pstrdup(settings[i]->name), settings[i]->source == PGC_S_FILE,
                                    true, true, true};
    MemoryContextSwitchTo(before);
}

// One that was not defined is a placeholder still, or was removed, with a warning.
void
keep_refused_settings()
{
    static bool started = false;
    for (int i = 0; i < given_count; i++)
    {
        const config_generic *setting = find_setting(given[i].name);
        given[i].defined = setting != nullptr && (setting->flags & GUC_CUSTOM_PLACEHOLDER) == 0;
        given[i].refused = given[i].defined && setting->source == PGC_S_DEFAULT;
        if (!started)
            given[i].refused_at_start = given[i].refused;
    }
    started = true;
}

RefusedSetting
next_refused_setting(int *number)
{
    while (*number < given_count)
    {
        const int next = (*number)++;
        if (given[next].refused_at_start && given[next].defined && has_default(given[next]) &&
            !is_settled(next))
            return {given[next].name, given[next].in_file,
                    find_setting(given[next].name)->context == PGC_POSTMASTER};
    }
    return {nullptr, false, false};
}

// A process knows whether it has read the files again since, and one that starts, when the
// postmaster has: after a clock that was set back that is for the next reload to say.
void
note_refused_setting()
{
    refused_as_of = PgReloadTime;
    SharedState *shared = shared_state();
    if (shared == nullptr)
        return;
    const auto now = static_cast<uint64>(PgReloadTime);
    uint64 before = pg_atomic_read_u64(&shared->refused_as_of);
    while (before < now && !pg_atomic_compare_exchange_u64(&shared->refused_as_of, &before, now))
    {
    }
}

bool
settle_refused_setting(int number)
{
    SharedState *shared = shared_state();
    if (shared == nullptr)
        return false;
    const bool read_again = refused_as_of != 0 ? PgReloadTime != refused_as_of
                                               : static_cast<uint64>(PgReloadTime) >
                                                     pg_atomic_read_u64(&shared->refused_as_of);
    if (read_again)
        (void) pg_atomic_fetch_or_u64(&shared->settled_settings, UINT64CONST(1) << (number - 1));
    return read_again;
}

} // namespace outbox
