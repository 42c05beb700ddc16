// Package description is what Google says of the form of its APIs: which methods there
// are, at which paths, with which parameters, and of which shape what is sent and answered
// is. It is read from Google's discovery documents, which are embedded here without their
// texts, and judges requests and answers by them.
//
// It must not know what any method does.
package description
