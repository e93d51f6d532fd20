// Events with a number each, of a few keys.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "support/pg.h"

namespace outbox::test
{

inline void
emit_many(Db &db, const std::string &type, int first, int last)
{
    for (int i = first; i <= last; ++i)
        db.exec("select outbox.emit($1, $2, 'e', jsonb_build_object('n', $3::int))", type,
                "key-" + std::to_string(i % 7), i);
}

// Until the last event is published.
inline void
wait_all_published(Db &db)
{
    const std::string last = db.value("select id from outbox.events order by seq desc limit 1");
    ASSERT_EQ(db.value("select outbox.wait_published($1, '30 s')", last), "t");
}

} // namespace outbox::test
