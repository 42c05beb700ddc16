package newcluster

import "strings"

// parseLabels reads k=v pairs, separated by commas; a value in double quotes may contain commas.
// problem is what is wrong, or "".
func parseLabels(text string) (labels map[string]string, problem string) {
	for _, item := range splitQuoted(text) {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		key, value, ok := strings.Cut(item, "=")
		if !ok || key == "" {
			return nil, "is not a list of labels"
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = strings.ReplaceAll(value, `"`, "")
	}
	return labels, ""
}

// splitQuoted splits at the commas outside of double quotes.
func splitQuoted(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ',' && !quoted
	})
}
