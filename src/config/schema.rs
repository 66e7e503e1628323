//! The JSON Schema of the configuration file, for editors.

use serde_json::Value;

use super::Config;

/// The JSON Schema of the configuration file (draft 2020-12). Its descriptions are the doc comments of the shape.
pub fn schema() -> Value {
    schemars::schema_for!(Config).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_describes_each_key_and_knows_its_default() {
        let schema = schema();
        let top = &schema["properties"];
        for key in ["listeners", "auth", "policy", "limits", "event", "upstreams", "audit", "health", "admin", "drain"]
        {
            assert!(top[key]["description"].is_string(), "{key}");
        }
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], serde_json::json!(["listeners", "auth", "policy", "upstreams"]));
        let listener = &schema["$defs"]["Listener"]["properties"];
        assert_eq!(listener["connections"]["default"], 10_000);
        assert_eq!(listener["body_timeout"]["default"], "30s");
        assert_eq!(listener["trusted_proxies"]["items"]["type"], "string");
        assert_eq!(schema["$defs"]["Http1"]["properties"]["idle_timeout"]["default"], "100s");
    }
}
