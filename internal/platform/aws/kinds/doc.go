// Package kinds declares the AWS resources that kops manages, one file a kind:
// its struct, how it is observed in bulk, and how it is made, changed and removed.
//
// It must not know what a cluster needs of them, nor when they are called:
// the model builds nodes from the structs, the engine calls the functions.
//
// A field's res tag says what its change does and its tf tag how Terraform
// spells it; package resource explains both.
package kinds
