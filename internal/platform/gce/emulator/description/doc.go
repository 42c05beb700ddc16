// Package description holds Google's description of its APIs: which methods there are, at which
// paths, with which parameters, and the shapes of requests and answers. It is read from Google's
// discovery documents, which are embedded here without their texts, and judges requests and
// answers by them.
//
// It must not know what any method does.
package description
