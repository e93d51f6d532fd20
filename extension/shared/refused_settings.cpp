#include "refused_settings.h"

#include "extension/server/pg_settings.h"

namespace outbox
{

namespace
{

// Those with a value, and then the refused ones of them; more than there are settings.
constexpr int kMost = 64;
RefusedSetting given[kMost];
int given_count = 0;

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

// One that was not defined is a placeholder still, or was removed, with a warning.
bool
has_default(const char *name)
{
    const config_generic *setting = find_setting(name);
    return setting != nullptr && (setting->flags & GUC_CUSTOM_PLACEHOLDER) == 0 &&
           setting->source == PGC_S_DEFAULT;
}

// What a role sets is nothing to the relay: it overrides that with what the server has.
bool
was_given_since(const char *name)
{
    switch (find_setting(name)->source)
    {
    case PGC_S_DEFAULT:
    case PGC_S_GLOBAL:
    case PGC_S_USER:
    case PGC_S_DATABASE_USER:
    case PGC_S_OVERRIDE:
        return false;
    default:
        return true;
    }
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
            given[given_count++] = {pstrdup(settings[i]->name), settings[i]->source == PGC_S_FILE};
    MemoryContextSwitchTo(before);
}

void
keep_refused_settings()
{
    int kept = 0;
    for (int i = 0; i < given_count; i++)
        if (has_default(given[i].name))
            given[kept++] = given[i];
        else
            pfree(given[i].name);
    given_count = kept;
}

RefusedSetting
next_refused_setting(int *number)
{
    while (*number < given_count)
    {
        const RefusedSetting &next = given[(*number)++];
        if (!was_given_since(next.name))
            return next;
    }
    return {nullptr, false};
}

} // namespace outbox
