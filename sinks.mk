# Which sinks are built, for the Makefiles here and in test/. A folder of bgworker/sinks with a sink.mk is a sink; what
# that says of sink x, in folder x, whose library is outbox_x.so:
#
#   SINK_x_PKGS   its development packages, as pkg-config names them; without one of them it is left out
#   SINK_x_DEV    the Debian packages that have them, for the message that says so
#   SINK_x_LIBS, SINK_x_CPPFLAGS   instead of what pkg-config says
#   SINK_x_NEEDED yes: it is never left out

SINKS_TOP := $(dir $(lastword $(MAKEFILE_LIST)))
include $(wildcard $(SINKS_TOP)bgworker/sinks/*/sink.mk)
ALL_SINKS := $(patsubst $(SINKS_TOP)bgworker/sinks/%/sink.mk,%,$(wildcard $(SINKS_TOP)bgworker/sinks/*/sink.mk))
PKG_CONFIG ?= pkg-config
SINKS := $(foreach sink,$(ALL_SINKS),$(if $(SINK_$(sink)_NEEDED)$(filter yes,$(shell \
	$(PKG_CONFIG) --exists $(SINK_$(sink)_PKGS) 2>/dev/null && echo yes)),$(sink)))
SINKS_LEFT_OUT := $(filter-out $(SINKS),$(ALL_SINKS))
# Only for what is not said: pkg-config may not be there.
ask_pkg_config = $(if $(filter undefined,$(origin SINK_$(1)_$(2))),$(eval SINK_$(1)_$(2) := $(shell \
	$(PKG_CONFIG) $(3) $(SINK_$(1)_PKGS))))
$(foreach sink,$(SINKS),$(call ask_pkg_config,$(sink),LIBS,--libs)$(call ask_pkg_config,$(sink),CPPFLAGS,--cflags))
