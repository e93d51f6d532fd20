// Which subscription this process serves: `default`, which every database has.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// For statements on what each subscription has for itself: its position, what it has set aside, its
// pause.
inline Datum
subscription_datum()
{
    return CStringGetTextDatum("default");
}

} // namespace outbox
