#include "dashboard.h"

#include <stdexcept>

#include "stack.h"

namespace outbox::test
{

namespace
{

void
replace_all(std::string &text, const std::string &what, const std::string &by)
{
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

} // namespace

std::vector<Panel>
dashboard_panels(const std::string &database, const std::string &rate_interval)
{
    std::vector<Panel> panels;
    const Json dashboard = Json::parse(shipped("dashboard.json"));
    for (const Json &json : dashboard.at("panels"))
    {
        Panel panel{json.at("title"), {}};
        for (const Json &target : json.at("targets"))
        {
            std::string expression = target.at("expr");
            replace_all(expression, "$__rate_interval", rate_interval);
            replace_all(expression, "$job", ".+");
            replace_all(expression, "$datname", database);
            if (expression.find('$') != std::string::npos)
                throw std::runtime_error("an unknown variable in " + expression);
            panel.targets.push_back({expression, target.at("legendFormat")});
        }
        panels.push_back(panel);
    }
    return panels;
}

std::string
legend_of(const Target &target, const Series &series)
{
    std::string legend = target.legend;
    for (const auto &[name, value] : series.labels)
        replace_all(legend, "{{" + name + "}}", value);
    return legend;
}

} // namespace outbox::test
