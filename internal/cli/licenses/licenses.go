// Package licenses contains the licences and notices of the modules that the programs of this
// project link, as these must be distributed with every copy.
//
// It must not judge them. The file is written by this package's test: after a change of
// dependencies run `go test ./internal/cli/licenses -update`.
package licenses

import _ "embed"

//go:embed third_party.txt
var thirdParty string

// ThirdParty returns a table of the linked modules, and the texts of their licences.
func ThirdParty() string { return thirdParty }
