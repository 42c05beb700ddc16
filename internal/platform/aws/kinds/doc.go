// Package kinds declares the AWS resources that kops manages, one file per kind: its struct, and
// how it is observed in bulk, created, changed and deleted.
//
// It must not know what a cluster needs, nor when its functions are called: the model builds nodes
// from the structs, the engine calls the functions.
//
// A field's res tag specifies the effect of a change and its tf tag the field's Terraform name;
// package resource explains both.
package kinds
