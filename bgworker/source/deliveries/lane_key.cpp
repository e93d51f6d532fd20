#include "bgworker/engine/common/lanes.h"

#include "lane_key.h"

#include "bgworker/source/spi_call.h"

namespace outbox
{

namespace
{

constexpr const char *kRead = "select k.key from outbox.lane_key k";

constexpr const char *kMake =
    "insert into outbox.lane_key (key) values (gen_random_uuid()) returning key";

} // namespace

void
load_lane_key()
{
    spi_connect();
    spi_execute(kRead, 0, nullptr, nullptr, SPI_OK_SELECT);
    if (SPI_processed == 0)
        spi_execute(kMake, 0, nullptr, nullptr, SPI_OK_INSERT_RETURNING);
    SipKey key;
    static_assert(sizeof(key) == UUID_LEN);
    memcpy(&key, DatumGetUUIDP(spi_first(1))->data, sizeof(key));
    set_lane_key(key);
    SPI_finish();
}

} // namespace outbox
