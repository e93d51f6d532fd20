// The program behind "make monitoring-picture": lets real servers live through a minute and a half,
// with Prometheus looking on, and draws what the dashboard's own expressions then give.
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <thread>

#include "../stack.h"
#include "draw.h"
#include "support/kafka_admin.h"
#include "support/kafka_cluster.h"
#include "support/pg.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

constexpr double kQuiet = 20;   // seconds until Kafka goes away
constexpr double kBack = 35;    // and is started again
constexpr double kRefused = 50; // Kafka refuses an event
constexpr double kRetried = 65; // which is tried again, and taken
constexpr double kEnd = 75;
constexpr int kMaxMessageBytes = 3000;
constexpr const char *kTopic = "outbox.event.order";

double
now()
{
    timespec time = {};
    if (clock_gettime(CLOCK_REALTIME, &time) != 0)
        throw std::runtime_error("clock_gettime failed");
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// An application: a few hundred events a second, now more, now fewer, until it is told to stop.
class Application
{
public:
    explicit Application(const PgCluster &server) : server_(server), thread_([this] { work(); }) {}
    ~Application() { stop(); }
    Application(const Application &) = delete;
    Application &operator=(const Application &) = delete;

    void stop()
    {
        stopping_ = true;
        if (thread_.joinable())
            thread_.join();
    }
    bool failed() const { return failed_; }

private:
    void work()
    {
        try
        {
            Db db(server_, "shop");
            const double began = now();
            while (!stopping_)
            {
                const double at = now() - began;
                db.exec("select outbox.emit('order', (random() * 1000)::int::text, 'paid', "
                        "'{\"amount\": 42}') from generate_series(1, $1::int)",
                        static_cast<int>(30 + 15 * std::sin(at / 4)));
                std::this_thread::sleep_for(Milliseconds(100)); // the load's pace
            }
        }
        catch (const std::exception &error)
        {
            std::fprintf(stderr, "the application: %s\n", error.what());
            failed_ = true;
        }
    }

    const PgCluster &server_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> failed_{false};
    std::thread thread_;
};

void
wait_for(double moment)
{
    while (now() < moment)
        std::this_thread::sleep_for(Milliseconds(20)); // the story's pace
}

// What happens, from `began` on.
void
live(RealKafka &kafka, const PgCluster &server, double began)
{
    Db db(server, "shop");
    Application application(server);
    wait_for(began + kQuiet);
    kafka.stop();
    wait_for(began + kBack);
    kafka.start();
    wait_for(began + kRefused);
    const std::string id =
        db.value("select outbox.emit('order', '7', 'paid', to_jsonb(repeat('x', $1::int)))",
                 2 * kMaxMessageBytes);
    wait_for(began + kRetried);
    set_topic_config(kafka.bootstrap(), kTopic,
                     {{"max.message.bytes", std::to_string(100 * kMaxMessageBytes)}});
    if (db.value("select outbox.retry($1)", id) != "t")
        throw std::runtime_error("the event had not failed");
    wait_for(began + kEnd);
    application.stop();
    if (application.failed() || db.value("select outbox.drain('20 s')") != "t")
        throw std::runtime_error("not everything was published");
}

std::vector<DrawnPanel>
collect(const Prometheus &prometheus, double began)
{
    std::vector<DrawnPanel> all;
    for (const Panel &panel : dashboard_panels("shop", "5s"))
    {
        if (panel.kind == "stat")
            continue;
        DrawnPanel drawn{panel, {}};
        for (const Target &target : panel.targets)
            for (const Series &series :
                 prometheus.query_range(target.expression, began, began + kEnd, 1))
            {
                Line line{legend_of(target, series), {}};
                for (const auto &[time, value] : series.points)
                    line.points.emplace_back(time - began, value);
                drawn.lines.push_back(std::move(line));
            }
        if (drawn.lines.empty())
            throw std::runtime_error("nothing to draw for " + panel.title);
        all.push_back(std::move(drawn));
    }
    return all;
}

void
make_picture(const std::filesystem::path &file)
{
    RealKafka kafka;
    kafka.start();
    kafka.create_topic(kTopic, Kafka::kDefaultPartitions,
                       {{"max.message.bytes", std::to_string(kMaxMessageBytes)}});
    PgCluster server("shop");
    server.init({{"outbox.bootstrap_servers", kafka.bootstrap()},
                 {"outbox.max_attempts", "3"},
                 {"outbox.backoff_max", "2s"}});
    server.start();
    Db(server, "postgres").exec("create database shop");
    Db(server, "shop").exec("create extension outbox");
    {
        const MonitoringStack stack(server, "shop", MonitoringStack::Exporters::kPostgresExporter);
        const double began = now();
        live(kafka, server, began);
        draw(collect(stack.prometheus(), began), kEnd, file);
    }
    server.stop();
    kafka.stop();
}

} // namespace

} // namespace outbox::test

int
main(int argc, char **argv)
{
    if (argc != 2)
    {
        std::fprintf(stderr, "usage: monitoring_picture FILE.svg\n");
        return 2;
    }
    if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return 1;
    try
    {
        outbox::test::make_picture(std::filesystem::absolute(argv[1]));
        return 0;
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "monitoring_picture: %s\n", error.what());
        return 1;
    }
}
