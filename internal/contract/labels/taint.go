package labels

import "strings"

// SplitTaint returns the parts of a taint of the form key=value:Effect or key:Effect. What a text that is
// not a taint lacks is "".
func SplitTaint(taint string) (key, value, effect string) {
	head, effect, _ := strings.Cut(taint, ":")
	key, value, _ = strings.Cut(head, "=")
	return key, value, effect
}
