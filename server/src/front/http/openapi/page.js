// Nothing is fetched but the description itself: the validator that Swagger UI would ask is elsewhere.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  validatorUrl: null,
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
});
