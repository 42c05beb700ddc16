// Package etcd defines an etcd cluster of kops: the objects in its backup store that say what it
// shall be, and the pure functions that decide, from observations, who leads its managers and what
// the leader does next.
//
// A cluster starts at one peer, its founder, and grows one learner at a time. The store records
// which cluster is valid, in a record that is only replaced on condition that nobody else replaced
// it: two clusters can never come from one wish, whatever happens to the managers. A new or
// restored cluster listens for clients on another port ("quarantined") until the record names it
// and most of its members are there.
//
// It must not know how peers are reached, how etcd is run, or what time it is.
// Step and everything it calls touch nothing; only the functions that take a
// store touch that store.
package etcd
