// Package roll decides how the machines of a cluster are replaced, or restarted, while
// the cluster serves: which one is taken when, and what stands in the way.
//
// A rollout is a State, which is kept in the store. Step takes it and what is seen of
// the world now, and returns the next State and what should be under way. Whoever holds
// the cluster's lease saves that State first and then acts; whatever of that is lost,
// the next Step, in any process, goes on from the State and a new look.
//
// It must not know how machines, nodes and pods are reached, how states are kept, nor
// what time it is. All here is pure.
package roll
