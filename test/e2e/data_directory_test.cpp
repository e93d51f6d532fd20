// How the relay knows the data directory that it has published from.
#include <sys/stat.h>

#include "servers.h"

using namespace outbox::test;

namespace
{

// As if the position had been written in the directory with this number. Ends the relay.
void
pretend_directory(Db &db, const std::string &number)
{
    db.exec("update outbox.relay_position set data_directory = $1::bigint, "
            "written_by = pg_current_xact_id()",
            number);
    db.exec("select pg_terminate_backend(pid) from outbox.relay_status");
}

} // namespace

TEST(DataDirectory, IsKnownByTheBirthOfItsControlFileAndUntilThenByItsInode)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    ASSERT_TRUE(database.reaches_state("running"));
    struct stat file;
    ASSERT_EQ(stat((server.data_dir() / "global/pg_control").c_str(), &file), 0);
    const std::string inode = std::to_string(static_cast<long long>(file.st_ino));
    const std::string number = db.value("select outbox.data_directory()");

    pretend_directory(db, inode); // as version 0.2 has stored it
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&] { return db.value("select data_directory from outbox.relay_position") == number; }));
    EXPECT_TRUE(database.reaches_state("running"));

    if (number == inode)
        GTEST_SKIP() << "this file system has no birth times";
    // The same inode on another file system has another number.
    pretend_directory(db, db.value("select outbox.data_directory() # 1"));
    EXPECT_TRUE(database.reaches_state("stopped"));
    EXPECT_EQ(db.value("select last_error like '%this data directory is a copy%' "
                       "from outbox.relay_status"),
              "t");
    EXPECT_EQ(db.value("select outbox.adopt_position()"), "t");
    EXPECT_TRUE(database.reaches_state("running"));
}
