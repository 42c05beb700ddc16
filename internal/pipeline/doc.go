// Package pipeline takes a stored cluster to a plan and carries it out, by stages:
//
//	Open → Opened → Gather → Gathered → Complete → Completed → Model → Modelled → Observe → Observed → Plan → Planned
//
// Each stage is a value that is not changed after its creation, and holds the stages from which it
// was created; a command starts from the stage that it needs. The objects of a deletion are an
// Opened's Desired, which is observed like a model's.
//
// It must not know its callers: no options of a command, no lease, no progress. Those belong to
// package kops.
package pipeline
