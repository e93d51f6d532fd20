// The program behind "make demo": starts PostgreSQL with the extension and, unless told of a Kafka,
// an embedded broker, tells the story, and stays up until Ctrl-C.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "destination.h"
#include "interrupt.h"
#include "outage_story.h"
#include "screen.h"
#include "story.h"
#include "webhook_story.h"
#include "support/pg.h"
#include "support/pg_cluster.h"

namespace outbox::demo
{

namespace
{

constexpr auto kReadyLimit = std::chrono::seconds(30);
constexpr const char *kDatabase = "shop";
constexpr int kFailed = 1;
constexpr int kInterrupted = 130;

struct Options
{
    bool once = false;
    bool outage = false;
    std::string bootstrap;
    std::string sink = "kafka";
};

// Creates the extension and waits until its relay is publishing.
void
create_extension(test::Db &db)
{
    db.exec("create extension outbox");
    std::string state;
    const bool ready = test::wait_until(kReadyLimit,
                                        [&]
                                        {
                                            check_interrupt();
                                            state =
                                                db.value("select state from outbox.relay_status");
                                            return state == "running";
                                        });
    if (ready)
        return;
    const auto error =
        db.exec("select coalesce(last_error, config_error) from outbox.relay_status").field(0);
    throw std::runtime_error("the relay is " + state + ": " + error.value_or("it gives no reason"));
}

void
show_setup(const Screen &screen, const test::PgCluster &cluster, const test::Settings &settings,
           test::Db &db, const Destination &kafka)
{
    screen.heading("outbox: from a transaction to Kafka");
    screen.item("PostgreSQL", fmt::format("{}, a private cluster on port {}",
                                          db.value("show server_version"), cluster.port()));
    screen.item("Kafka", fmt::format("{}, {}", kafka.embedded() ? "embedded broker" : "yours",
                                     kafka.bootstrap()));
    screen.item("Log", cluster.log_file().string());
    std::string label = "Settings";
    for (const auto &[name, value] : settings)
    {
        screen.item(label, fmt::format("{} = '{}'", name, value));
        label.clear();
    }
    screen.item("Once", "create extension outbox;");
}

void
show_how_to_continue(const Screen &screen, const test::PgCluster &cluster, const Destination &kafka)
{
    screen.heading("Now you");
    screen.text("  In a second terminal, talk to the database:");
    screen.command(
        fmt::format("psql -h 127.0.0.1 -p {} -U postgres {}", cluster.port(), kDatabase));
    screen.text("  In a third one, read the topic (kcat is a package of that name):");
    screen.command(fmt::format("kcat -b {} -C -t {} -f 'partition %p, key %k: %s\\n  %h\\n'",
                               kafka.bootstrap(), kafka.topic()));
    screen.text("  And then, for example:");
    screen.command(
        "select outbox.emit('order', '1', 'order.returned', '{\"reason\": \"too small\"}');");
    screen.command("select * from outbox.relay_status \\gx");
    screen.blank();
    screen.text(
        "Events that you emit for orders appear below, with the time since they were emitted.");
    screen.text("Ctrl-C ends the demo and removes everything.");
    screen.blank();
}

void
show_what_next(const Screen &screen, const Options &options)
{
    screen.heading("What to try next");
    screen.command(options.outage
                       ? "make demo                 # the rest of the story; it stays up for you"
                       : "make demo STORY=outage    # the broker is killed while orders come in");
    screen.command(
        "make deb                  # packages for your own server, see Install in README.md");
    screen.command("make outboxctl            # the command for operators, see docs/outboxctl.md");
    screen.blank();
}

// A crash explains whatever else went wrong, and is a failure even when nothing else did.
void
fail_if_crashed(test::PgCluster &cluster)
{
    for (const std::string &line : cluster.new_crashes())
        throw std::runtime_error(fmt::format("a server process crashed: {}\nThe server's log: {}",
                                             line, cluster.log_file().string()));
}

// Everything that happens while the server is up.
void
use_cluster(const Screen &screen, const Options &options, const test::PgCluster &cluster,
            const test::Settings &settings, Destination &kafka)
{
    test::Db(cluster, "postgres").exec(fmt::format("create database {}", kDatabase));
    test::Db db(cluster, kDatabase);
    create_extension(db);
    show_setup(screen, cluster, settings, db, kafka);

    // Kafka answers a waiting consumer at once, the embedded broker only when its time is over.
    test::Consumer consumer(kafka.bootstrap(), {kafka.topic()},
                            {{"fetch.wait.max.ms", kafka.embedded() ? "5" : "100"},
                             {"reconnect.backoff.max.ms", "500"}});
    // Finds the partitions now, so that the first event need not wait for that.
    consumer.read_for(test::Milliseconds(1));
    const std::unique_ptr<Story> story =
        options.outage ? std::make_unique<OutageStory>(screen, db, consumer, kafka)
                       : std::make_unique<Story>(screen, db, consumer, kafka.topic());
    story->tell();
    if (options.once)
        return;
    show_how_to_continue(screen, cluster, kafka);
    story->show_what_arrives();
}

void
run_demo(const Options &options)
{
    const Screen screen;
    screen.text("Starting ...");
    Destination kafka(options.bootstrap);
    check_interrupt();

    const test::Settings settings = {
        {"shared_preload_libraries", "outbox"},
        {"outbox.bootstrap_servers", kafka.bootstrap()},
        {"outbox.topic_template", kafka.topic_template()},
    };
    test::PgCluster cluster("demo");
    cluster.init(settings);
    check_interrupt();
    cluster.start();
    try
    {
        use_cluster(screen, options, cluster, settings, kafka);
    }
    catch (const Interrupted &)
    {
        throw;
    }
    catch (const std::exception &error)
    {
        fail_if_crashed(cluster);
        throw std::runtime_error(
            fmt::format("{}\nThe server's log: {}", error.what(), cluster.log_file().string()));
    }
    cluster.stop();
    fail_if_crashed(cluster);
    show_what_next(screen, options);
    screen.text("Stopped; the cluster and its data are removed.");
}

int
main_with(const Options &options)
{
    try
    {
        catch_interrupts();
        const TerminalOwner terminal;
        if (options.sink == "webhook")
            run_webhook_demo(Screen(), options.once);
        else
            run_demo(options);
        return 0;
    }
    catch (const Interrupted &)
    {
        (void) std::fputs("\nInterrupted before the end; everything is removed.\n", stderr);
        return kInterrupted;
    }
    catch (const std::exception &error)
    {
        (void) std::fprintf(stderr, "\nThe demo failed: %s\n", error.what());
        return kFailed;
    }
}

} // namespace

} // namespace outbox::demo

int
main(int argc, char **argv)
{
    try
    {
        outbox::demo::Options options;
        CLI::App app(
            "Shows what outbox does, with a private PostgreSQL and an embedded Kafka broker.");
        app.add_flag("--once", options.once, "End after the story.");
        auto *bootstrap =
            app.add_option("--bootstrap", options.bootstrap, "Use this Kafka, host:port.");
        auto *outage = app.add_flag("--outage", options.outage,
                                    "Tell of a broker that goes away and comes back.")
                           ->excludes(bootstrap);
        app.add_option("--sink", options.sink, "Where events go: kafka or webhook.")
            ->check(CLI::IsMember({"kafka", "webhook"}))
            ->excludes(bootstrap)
            ->excludes(outage);
        CLI11_PARSE(app, argc, argv);
        return outbox::demo::main_with(options);
    }
    catch (const std::exception &error)
    {
        (void) std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
