// Package roll decides how the machines of a cluster are replaced, or restarted, while the cluster
// serves: which one is taken when, and what prevents it.
//
// A rollout is a State, which is kept in the store. Step takes it and a view of the world, and
// returns the next State and the actions that should be under way. The holder of the cluster's
// lease first saves that State and then acts; if any of that is lost, the next Step, in any
// process, continues from the State and a new view.
//
// It must not know how machines, nodes and pods are reached, how states are stored, nor what time
// it is. Everything here is pure.
package roll
