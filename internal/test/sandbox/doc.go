// Package sandbox gives a test a file system and a network of its own, on Linux, in which it boots machines:
// their user data, which writes to /opt and /etc and uses real names and addresses, and nodeup, in a
// folder that stands in for the rest of a machine.
//
// It is for tests only, and must not know any platform, nor what machines fetch.
package sandbox
