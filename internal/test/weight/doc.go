// Package weight holds the programs to budgets: how large they are, what they allocate
// before main, and which methods the linker has to keep.
package weight
