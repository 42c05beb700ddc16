// Package standin is a library for stand-ins of clouds: programs that play a cloud's REST API on this
// host, for tests and rehearsals. It handles requests one at a time, on a clock that a test can turn,
// with operations that end later, faults where a test wants them, and counts of calls. A cloud's
// stand-in adds the methods, the state and the form of errors, and has requests and responses judged
// by the vendor's description of the API.
//
// Subpackage tree reads and changes decoded JSON, openapi judges by an OpenAPI document, and
// standintest has the clock for tests.
//
// It must not know any cloud, who its clients are, or what a cluster is.
package standin
