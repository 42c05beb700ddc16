// Package validate has the rules for a cluster and its groups, those for changing them, and the
// guards on versions. All findings are collected; each has the field as users write it (v1alpha2),
// the value, the rule and the remedy.
//
// It must not change anything, look anything up, nor know how a spec is read: names of fields and
// their types are checked by package compat.
package validate
