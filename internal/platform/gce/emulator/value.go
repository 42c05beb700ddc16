package emulator

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"kops.local/kops/internal/standin/tree"
)

// pattern returns a function that compiles a regular expression on first use.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// object and list are JSON values, with int64 and float64 for numbers.
type (
	object = tree.Object
	list   = tree.List
)

// decode decodes JSON, keeping numbers as they are written.
func decode(raw []byte) (any, error) {
	v, err := tree.Decode(raw)
	if err != nil {
		return nil, refusal(http.StatusBadRequest, "parseError", "Parse Error: %v", err)
	}
	return v, nil
}

// fingerprint returns a digest of values in Google's format: eight bytes in base64.
func fingerprint(values ...any) string {
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(values) // JSON values can be encoded, and a hash never fails
	text, _ := json.Marshal(sum.Sum(nil))   // base64, as for bytes in JSON
	return strings.Trim(string(text), `"`)
}

// lastPart returns what follows the last separator.
func lastPart(s, separator string) string { return s[strings.LastIndex(s, separator)+1:] }
