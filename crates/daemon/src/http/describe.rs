//! What the API's description says of every route: how a caller authenticates, and the form of refusals.

use crate::api;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{PartialSchema, ToSchema};

/// The routes that need no token.
const OPEN: [&str; 3] = ["/healthz", "/api/v1/openapi.json", "/sign-in/{code}"];

/// Adds to every route what no route says by itself.
pub fn complete(description: &mut OpenApi) {
    let components = description.components.get_or_insert_default();
    components.schemas.insert(api::Problem::name().into_owned(), api::Problem::schema());
    let bearer =
        HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("A token: `rota token create` makes one.")).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    let cookie =
        ApiKeyValue::with_description("rota_session", "Set by POST /api/v1/session. Changes need the header X-Rota-CSRF, too.");
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    for (path, item) in &mut description.paths.paths {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            complete_one(operation, OPEN.contains(&path.as_str()));
        }
    }
}

fn complete_one(operation: &mut Operation, is_open: bool) {
    let responses = &mut operation.responses.responses;
    responses.retain(|status, _| !status.starts_with('4') && !status.starts_with('5'));
    for (status, text) in [("4XX", "What is asked cannot be done; `title` says why."), ("5XX", "The daemon cannot do it now.")] {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(api::Problem::name()))).build();
        let response = ResponseBuilder::new().description(text).content("application/problem+json", content).build();
        responses.insert(status.to_owned(), RefOr::T(response));
    }
    if !is_open {
        let none: [&str; 0] = [];
        operation.security = Some(vec![SecurityRequirement::new("token", none), SecurityRequirement::new("session", none)]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// Whether a schema says what is in the body: a type of the API with its fields, or a list of such or of numbers. A string says
    /// nothing of a JSON body.
    fn is_told(schema: &Value, schemas: &Value) -> bool {
        if let Some(name) = schema["$ref"].as_str() {
            let meant = &schemas[name.rsplit('/').next().unwrap_or_default()];
            let has_fields = meant["properties"].as_object().is_some_and(|fields| !fields.is_empty());
            return has_fields || meant["allOf"].is_array();
        }
        schema["type"] == "array" && (schema["items"]["type"] == "integer" || is_told(&schema["items"], schemas))
    }

    #[test]
    fn every_json_body_that_is_answered_has_a_schema() {
        let api: Value = serde_json::from_str(&crate::http::openapi()).unwrap();
        let mut bodies = 0;
        for (path, item) in api["paths"].as_object().unwrap() {
            for (verb, operation) in item.as_object().unwrap() {
                let responses = operation["responses"].as_object().into_iter().flatten();
                for (status, response) in responses.filter(|(status, _)| status.starts_with('2')) {
                    let Some(body) = response["content"].get("application/json") else { continue };
                    bodies += 1;
                    assert!(is_told(&body["schema"], &api["components"]["schemas"]), "{verb} {path}, {status}: {body:#}");
                }
            }
        }
        assert!(bodies > 30, "{bodies} bodies are described");
    }
}
