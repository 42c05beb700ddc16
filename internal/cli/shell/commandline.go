package shell

import (
	"regexp"
	"strings"

	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/ops/dump"
)

// assignment matches an argument that sets fields of an object, by its parts: up to the first path, and
// the rest.
var assignment = regexp.MustCompile(`^((?:--?[A-Za-z][A-Za-z0-9-]*=)?"?(?:(?:cluster|instancegroup)\.)?(?:spec|metadata)\.[^=]*=)((?s:.*))$`)

// CommandLine returns a command line as it is stored in the lease and in the revisions, which others
// read: without the passwords of URLs, and without the values of fields that a support bundle leaves
// out.
func CommandLine(args []string) string {
	words := []string{"kops"}
	for _, a := range args {
		a = redact.URLs(a)
		if m := assignment.FindStringSubmatch(a); m != nil && dump.LeavesOut(a) {
			a = m[1] + "(left out)"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
