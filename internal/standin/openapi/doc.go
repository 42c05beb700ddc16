// Package openapi judges requests and responses by the vendor's description of an API, an OpenAPI 3.1
// document: the path and the method exist, query parameters are named, bodies are valid, the status
// is listed. It is stricter than JSON schema: a field that no schema names is an error.
//
// It must not know any API, nor what a method does.
package openapi
