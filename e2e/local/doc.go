// Package local holds no code: its tests create real clusters on this host with
// the built kops, and break them.
//
// They run if KOPS_E2E=1 is set, as root, on an idle machine with 3 GB of free
// memory. KOPS_E2E_REPORT names a JSON file that receives the measurements.
package local
