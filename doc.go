// Package kops is the library under the command line: a Client that reads and
// writes the objects of a state store, completes and checks them, plans what a
// platform needs for them, and carries the plan out or renders it.
//
// Package world makes the Config of a program that a user runs, with real state
// stores and platforms; package fakecloud is a platform in memory, and package
// provider is for programs that bring a platform of their own.
//
// Errors and findings name a field by its path, and an option of a call as option:Prune.
//
// It must not read flags, the environment or the terminal; everything a Client
// needs of the world is in its Config.
package kops
