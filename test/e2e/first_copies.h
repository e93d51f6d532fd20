#pragma once

#include "servers.h"

namespace outbox::test
{

struct FirstCopies
{
    size_t events = 0;
    size_t records = 0;
    size_t lost = 0;
    size_t invented = 0;
    size_t misordered = 0;
    size_t elsewhere = 0; // repeats in another topic than the first copy's

    bool good() const { return lost + invented + misordered == 0; }
};

// Reads until every event of the database has come to some topic, for a minute at most. Of a type's
// events with a key, the first copies in each topic are to be in order, whatever its routes were;
// but for repeats of what had come to another topic first. Says what is wrong. Call it when nobody
// emits any more.
FirstCopies judge_first_copies(Db &db, Consumer &consumer);

} // namespace outbox::test
