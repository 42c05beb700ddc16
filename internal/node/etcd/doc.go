// Package etcd is what an etcd cluster of kops is: the objects in its back-up
// store that say what it shall be, and the pure functions that decide, from
// what was observed, who leads its managers and what the leader does next.
//
// A cluster starts at one peer, its founder, and grows one learner at a time.
// Which cluster is the one is written in the store, in a record that is only
// replaced on condition that nobody else replaced it: two clusters can never
// come from one wish, whatever happens to the managers. A new or restored
// cluster listens for clients on another port ("quarantined") until the record
// says that it is the one and most of its members are there.
//
// It must not know how peers are reached, how etcd is run, or what time it is.
// Step and everything it calls touch nothing; only the functions that take a
// store touch that store.
package etcd
