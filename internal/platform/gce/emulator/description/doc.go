// Package description holds Google's description of its APIs: their methods, paths and parameters,
// and the schemas of requests and responses. It is read from Google's discovery documents, which
// are embedded here without their texts, and checks requests and responses.
//
// It must not know what any method does.
package description
