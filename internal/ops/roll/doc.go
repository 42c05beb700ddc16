// Package roll decides how the machines of a cluster are replaced, or restarted, while
// the cluster serves: which one is taken when, and what stands in the way.
//
// A rollout is a State, which is kept in the store. Step takes it and a view of
// the world, and returns the next State and the actions that should be under way. The holder of
// the cluster's lease saves that State first and then acts; if any of that is lost,
// the next Step, in any process, continues from the State and a new view.
//
// It must not know how machines, nodes and pods are reached, how states are kept, nor
// what time it is. All here is pure.
package roll
