// Package etcd defines an etcd cluster of kops: the objects in its backup store that specify it,
// and the pure functions that decide, from observations, which manager leads and what the leader
// does next.
//
// A cluster starts at one peer, its founder, and grows by one learner at a time. The store records
// which cluster is valid, in a record that is replaced only if it is unchanged: one spec can never
// result in two clusters, whatever happens to the managers. A new or restored cluster listens for
// clients on another port ("quarantined") until the record names it and most of its members have
// joined.
//
// The package must not know how peers are reached, how etcd is run, or what time it is. Step and
// everything it calls have no side effects; only the functions that take a store access that
// store.
package etcd
