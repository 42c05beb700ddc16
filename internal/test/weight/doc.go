// Package weight checks the budgets of the programs: their size, their allocations
// before main, and which methods the linker must keep.
package weight
