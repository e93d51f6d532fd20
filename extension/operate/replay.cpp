// What outbox.replay() asks of the code that knows Kafka's rules.

#include "extension/core/topic_template.h"
#include "extension/server/server_text.h"
#include "extension/server/text_view.h"

extern "C"
{
    OUTBOX_FUNCTION(outbox_check_topic_name);

    Datum outbox_check_topic_name(PG_FUNCTION_ARGS)
    {
        const std::string_view topic = outbox::text_view(PG_GETARG_TEXT_PP(0));
        const char *problem = outbox::check_topic_name(topic);
        if (problem != nullptr)
        {
            const std::string_view shown = outbox::clip_server(topic, 300);
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("\"%.*s\" is not a Kafka topic name",
                                   static_cast<int>(shown.size()), shown.data()),
                            errdetail("The topic name %s.", problem),
                            errhint("%s", outbox::kTopicNameRule)));
        }
        PG_RETURN_VOID();
    }
}
