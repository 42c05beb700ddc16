// Package pipeline takes a stored cluster to a plan and carries it out, by stages:
//
//	Open → Opened → Gather → Gathered → Complete → Completed → Model → Modelled → Observe → Observed → Plan → Planned
//
// Each stage is a value that is not changed once it is made, and holds the stages that
// it was made of; a verb starts from the stage that it needs. The objects of a deletion are
// an Opened's Wanted, which is observed like a model's.
//
// It must not know who asks: no options of a command, no lease, no progress. These are
// package kops'.
package pipeline
