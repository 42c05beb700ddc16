// Package local holds no code: its tests make real clusters on this host with
// the built kops, and break them.
//
// They run where KOPS_E2E=1 is set, as root, on a quiet machine with 3 GB of
// memory to spare. KOPS_E2E_REPORT names a JSON file that receives what was measured.
package local
