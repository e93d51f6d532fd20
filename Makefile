# outbox: a PostgreSQL extension built with PGXS.
#
#   make demo           the main job in one minute, no Kafka needed   (ONCE=1, STORY=outage, SINK=webhook,
#                       BOOTSTRAP=host:9092)
#   make check          every test, real Kafka included               (make check-fast: without it)
#   make check-upgrade  whether a database that was updated is like a fresh one; after make install
#   make check-debian13 the quick tests in a root directory of Debian 13 that it makes
#   make install        as with every PGXS extension; PG_CONFIG says for which PostgreSQL
#   make outboxctl      the command for operators; make install-outboxctl PREFIX=/usr/local
#   make bench          figures beside their limits                   (COUNT=..., ROUNDS=...)
#   make check-debezium the relay's records beside those of an unmodified Debezium
#   make check-webhooks webhooks, verified with the reference libraries for Python, JavaScript and Go
#   make check-monitoring  Prometheus, the exporters, alert rules and dashboard
#   make check-packages Debian packages, built and installed in root directories that it makes
#   make check-examples the examples of every language on real Kafka (LANGUAGES="python go")
#   make check-saga     the services of examples/saga, with everything killed at random   (MINUTES=...)
#   make check-sanitizers  client, outboxctl and simulation under AddressSanitizer, UndefinedBehaviorSanitizer and
#                       ThreadSanitizer
#   make soak           random faults for as long as asked            (MINUTES=...)
#   make client         the C++ client library, which needs no PGXS   (make install-client: PREFIX=, DESTDIR=)
#   make deb            Debian packages, into build/deb/
#   make dist           the source as PGXN wants it, into build/dist/
#   make docs           the documentation as a site, into build/site/
#   make lint format clean
#
# demo, check, check-examples, check-monitoring, bench, soak, deb and docs install the Debian packages that are missing;
# DEPS=skip leaves packages alone.

EXTENSION = extension/outbox
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" extension/outbox.control)

# The installation script, in the order in which its parts need each other.
SQL_PARTS = older_objects schema library events emit routes relay deliveries lane_key restore subscription_columns subscriptions changing attaching status dead_letters relay_status event_status event_deliveries waiting consumers idempotency expiry ring stats replay operating pausing identity grants closed
SQL_SCRIPT = extension/outbox--$(EXTVERSION).sql
# Scripts of released versions are never changed; the one from the last of them is made of parts too.
DATA = $(wildcard extension/released/outbox--*.sql)
SQL_UPGRADES = $(patsubst sql/upgrade/%.sql,extension/outbox--%.sql,$(wildcard sql/upgrade/*.sql))
DATA_built = $(SQL_SCRIPT) $(SQL_UPGRADES)

# What every backend loads; it must never need a library of a sink. It knows their options.
MODULE_big = outbox
CORE_OBJS = $(patsubst %.cpp,%.o,$(wildcard extension/core/*.cpp))
OBJS = $(patsubst %.cpp,%.o,$(wildcard extension/*.cpp extension/*/*.cpp bgworker/sinks/*/options.cpp))

# What the relay's process loads on top.
RELAY = outbox_relay.so
RELAY_OBJS = $(patsubst %.cpp,%.o,$(filter-out bgworker/sinks/%,$(wildcard bgworker/*/*.cpp bgworker/*/*/*.cpp))) $(CORE_OBJS)

# And for the sink of its subscription: a library for each folder whose development packages are here.
include sinks.mk
SINK_LIBRARIES = $(SINKS:%=outbox_%.so)
sink_objs = $(patsubst %.cpp,%.o,$(wildcard bgworker/sinks/$(1)/*.cpp))
# What they share with the relay's.
SINK_COMMON_OBJS = bgworker/engine/failure.o $(CORE_OBJS)
SINK_OBJS = $(foreach sink,$(SINKS),$(call sink_objs,$(sink)))

PG_CONFIG ?= pg_config
WARNINGS = -Wall -Wextra -Wshadow -Wnon-virtual-dtor $(if $(WERROR),-Werror)
PG_CPPFLAGS = -I. -isystem $(shell $(PG_CONFIG) --includedir-server 2>/dev/null) -DOUTBOX_VERSION='"$(EXTVERSION)"'
PG_CXXFLAGS = -std=c++17 $(WARNINGS) -Wno-register -fvisibility=hidden -MMD -MP \
	'-DPGDLLEXPORT=__attribute__((visibility("default")))'
SHLIB_LINK = -ldl -lstdc++

# The bitcode rules of PGXS compile C++ without our flags.
override with_llvm = no

EXTRA_CLEAN = $(RELAY) $(RELAY_OBJS) $(OBJS:.o=.d) $(RELAY_OBJS:.o=.d) $(SINK_LIBRARIES) $(SINK_OBJS) $(SINK_OBJS:.o=.d) build results output_iso \
	regression.diffs regression.out tmp_check

# In the order in which they build on each other; the first one creates the extension.
REGRESS = emit_basics emit_errors sent_sizes encodings changed_tables changed_between emit_contexts insert_events used_ids effect_once session_changes consumer_events inbound_requests access_rights config_checks relay_views operators subscription_calls subscription_changes subscription_detaching foreign_collations ring_at_first rights escalations attached_code replays subscription_replays event_routes event_triggers drain statistics backpressure set_back default_rights upgrade older_version
REGRESS_FILES = $(patsubst test/sql/%.sql,%,$(wildcard test/sql/*.sql))
REGRESS_UNNAMED = $(filter-out $(REGRESS),$(REGRESS_FILES))
ifneq ($(if $(filter file,$(origin REGRESS)),$(REGRESS_UNNAMED)),)
$(error REGRESS leaves out $(REGRESS_UNNAMED) of test/sql)
endif
REGRESS_OPTS = --inputdir=test --outputdir=.
ISOLATION = $(sort $(patsubst test/specs/%.spec,%,$(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --outputdir=. --load-extension=outbox

# Goals that scripts and other makefiles do; the scripts find or install PostgreSQL themselves, and PGXS has a
# "check" of its own.
SCRIPT_GOALS = demo check check-webhooks check-fast check-debian13 check-debezium check-monitoring check-examples check-saga check-sanitizers check-simulation check-packages bench soak simulate format lint client install-client outboxctl install-outboxctl deb dist docs
ifeq ($(filter-out $(SCRIPT_GOALS),$(or $(MAKECMDGOALS),all)),)

demo:
	@scripts/demo
check:
	@scripts/prepare check && scripts/check
check-fast:
	@scripts/prepare check && scripts/check fast
check-webhooks:
	@scripts/prepare check e2e && OUTBOX_TEST_KAFKA=embedded build/test/e2e_tests --gtest_filter='Webhook*'
check-debian13:
	@scripts/check-debian13
check-debezium:
	@scripts/prepare check debezium && scripts/check debezium
check-monitoring:
	@scripts/prepare monitoring && scripts/monitoring
check-packages:
	@scripts/check-packages
check-examples:
	@scripts/prepare examples && scripts/examples all
check-saga:
	@LANGUAGES="python go" scripts/prepare examples && LANGUAGES="python go" scripts/examples saga
check-sanitizers:
	@scripts/prepare check ctl && scripts/sanitizers
bench:
	@scripts/prepare bench && scripts/bench
soak:
	@scripts/prepare check && scripts/soak
# As many histories as fit into SECONDS, from SEED on; with HISTORY=n that one, told in words if it fails.
simulate:
	@$(MAKE) -s -C test WERROR=1 simulation
	@build/test/simulate $(if $(HISTORY),seed $(HISTORY),$(or $(SECONDS),60) $(SEED))
# The tests of the simulation with as many histories as asked for; "make check" runs fewer.
check-simulation:
	@$(MAKE) -s -C test WERROR=1 simulation
	@OUTBOX_HISTORIES=$(or $(HISTORIES),100000) build/test/simulation_tests
format:
	@scripts/lint format
lint:
	@scripts/lint
client:
	@$(MAKE) -C client all examples
install-client:
	@$(MAKE) -C client install
deb:
	@scripts/deb
dist:
	@scripts/dist
docs:
	@scripts/docs
.PHONY: $(SCRIPT_GOALS)

else

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(wildcard $(PGXS)),)
$(error $(PG_CONFIG) --pgxs names no file: install postgresql-server-dev-NN, or run scripts/deps.sh build)
endif
include $(PGXS)

all: $(RELAY) $(SINK_LIBRARIES)

$(RELAY): $(RELAY_OBJS)
	$(CC) $(CFLAGS) -shared -o $@ $(RELAY_OBJS) $(LDFLAGS) -ldl -lstdc++

$(foreach sink,$(SINKS_LEFT_OUT),$(info outbox_$(sink).so is left out: no development files of $(SINK_$(sink)_PKGS) ($(SINK_$(sink)_DEV))))
define SINK_LIBRARY
outbox_$(1).so: $$(call sink_objs,$(1)) $$(SINK_COMMON_OBJS)
	$$(CC) $$(CFLAGS) -shared -o $$@ $$^ $$(LDFLAGS) $$(SINK_$(1)_LIBS) -lstdc++
$$(call sink_objs,$(1)): override CPPFLAGS += $$(SINK_$(1)_CPPFLAGS)
endef
$(foreach sink,$(SINKS),$(eval $(call SINK_LIBRARY,$(sink))))

install: install-relay
install-relay: $(RELAY) $(SINK_LIBRARIES) installdirs
	$(INSTALL_SHLIB) $(RELAY) $(SINK_LIBRARIES) '$(DESTDIR)$(pkglibdir)/'

uninstall: uninstall-relay
uninstall-relay:
	rm -f $(patsubst %,'$(DESTDIR)$(pkglibdir)/%',$(RELAY) $(SINK_LIBRARIES))

$(SQL_SCRIPT): $(wildcard sql/*.sql) extension/outbox.control scripts/join-sql
	scripts/join-sql $(EXTVERSION) $(SQL_PARTS:%=sql/%.sql) > $@.new && mv $@.new $@

# From any version to another; which parts it includes is in the script.
$(SQL_UPGRADES): extension/outbox--%.sql: sql/upgrade/%.sql $(wildcard sql/*.sql) scripts/join-sql
	scripts/join-sql $(lastword $(subst --, ,$*)) $< > $@.new && mv $@.new $@

# Of the installed extension.
check-upgrade:
	@$(MAKE) -s -C test tools
	@build/test/with_cluster $(MAKE) -s installcheck REGRESS="upgrade older_version" ISOLATION=

-include $(wildcard $(OBJS:.o=.d) $(RELAY_OBJS:.o=.d) $(SINK_OBJS:.o=.d))
.PHONY: install-relay uninstall-relay check-upgrade

endif

# Needs nothing of a server, and goes together with any other goal.
outboxctl:
	@$(MAKE) -C client/outboxctl
install-outboxctl:
	@$(MAKE) -C client/outboxctl install
.PHONY: outboxctl install-outboxctl
