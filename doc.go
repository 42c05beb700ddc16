// Package kops is the library behind the command line: a Client that reads and
// writes the objects of a state store, completes and checks them, plans the platform
// resources that they need, and applies or renders the plan.
//
// Package world creates the Config of a program that a user runs, with real state
// stores and platforms; package fakecloud is a platform in memory, and package
// provider is for programs that add a platform of their own.
//
// Errors and findings name a field by its path, and an option of a call as option:Prune.
//
// It must not read flags, the environment or the terminal; everything a Client
// needs from its environment is in its Config.
package kops
